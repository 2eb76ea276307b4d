import logging
import os
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from bricks import Bricks
from nets import ConvAC

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger(__name__)


@dataclass
class Hp:
    boards: int = 32
    horizon: int = 32
    epochs: int = 3
    minibatches: int = 4
    lr: float = 3e-4
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.1
    ent: float = 0.01
    iters: int = 1_000_000
    print_every: int = 5
    save_every: int = 500
    threads: int = 1
    seed: int = 17


def main(hp=Hp()):
    torch.manual_seed(hp.seed)
    torch.set_num_threads(hp.threads)
    env = Bricks(hp.boards, hp.seed)
    net = ConvAC(3)
    log.info("params: %d", sum(p.numel() for p in net.parameters()))
    opt = torch.optim.Adam(net.parameters(), lr=hp.lr, eps=1e-5, fused=True)
    T, B = hp.horizon, hp.boards
    f = torch.zeros(T, B, 4, 10, 10)
    act = torch.zeros(T, B, dtype=torch.long)
    logp, val = torch.zeros(T, B), torch.zeros(T + 1, B)
    rew, dead = np.zeros((T, B), np.float32), np.zeros((T, B), np.float32)
    cur = torch.from_numpy(env.frame())
    score, scores = np.zeros(B), []
    frames, mark, fm = 0, time.time(), 0

    for it in range(1, hp.iters + 1):
        with torch.inference_mode():
            for t in range(T):
                lg, v = net(cur)
                lp = F.log_softmax(lg, 1)
                a = (lp - torch.empty_like(lp).exponential_().log_()).argmax(1)
                f[t], act[t], val[t] = cur, a, v
                logp[t] = lp.gather(1, a[:, None])[:, 0]
                fr, rew[t], d = env.act(a.numpy())
                dead[t] = d
                score += rew[t]
                if d.any():
                    scores += score[d].tolist()
                    score[d] = 0
                cur = torch.from_numpy(fr)
            val[T] = net(cur)[1]
        frames += T * B

        v = val.numpy()
        adv, acc = np.zeros((T, B), np.float32), np.zeros(B, np.float32)
        for t in reversed(range(T)):
            k = hp.gamma * (1 - dead[t])
            acc = rew[t] + k * v[t + 1] - v[t] + k * hp.lam * acc
            adv[t] = acc
        ret = torch.from_numpy(adv + v[:-1]).view(-1)
        adv = torch.from_numpy((adv - adv.mean()) / (adv.std() + 1e-8)).view(-1)
        x, ac, ol = f.view(-1, 4, 10, 10), act.view(-1), logp.view(-1)
        for _ in range(hp.epochs):
            for ix in torch.randperm(T * B).chunk(hp.minibatches):
                lg, nv = net(x[ix])
                lp = F.log_softmax(lg, 1)
                r = (lp.gather(1, ac[ix][:, None])[:, 0] - ol[ix]).exp()
                a_ = adv[ix]
                loss = (-torch.min(r * a_, r.clamp(1 - hp.clip, 1 + hp.clip) * a_).mean()
                        + 0.5 * F.mse_loss(nv, ret[ix]) + hp.ent * (lp.exp() * lp).sum(1).mean())
                opt.zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                opt.step()

        if it % hp.print_every == 0:
            now = time.time()
            log.info("it %d frames %d score %.2f loss %.4f fps %.0f", it, frames, np.mean(scores[-100:] or [0]), loss.item(),
                     (frames - fm) / (now - mark))
            mark, fm, scores = now, frames, scores[-100:]
        if it % hp.save_every == 0:
            out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "saved")
            os.makedirs(out, exist_ok=True)
            torch.save(net.state_dict(), os.path.join(out, "net.pt"))


if __name__ == "__main__":
    main()

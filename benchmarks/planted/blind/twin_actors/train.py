"""poor man's impala: a few actor processes fill shared slots, the learner does v-trace on them"""
import json
import os
import time

import torch
import torch.multiprocessing as mp
import torch.nn.functional as F

from actor import make_slots, run_actor
from net import Net
from pursuit import Pursuit

HERE = os.path.dirname(os.path.abspath(__file__))


def vtrace(logp_mu, logp_pi, rew, done, v, v_last, cfg):
    with torch.no_grad():
        rho = (logp_pi - logp_mu).exp()
        rho_c = rho.clamp(max=cfg["rho_bar"])
        c = rho.clamp(max=cfg["c_bar"])
        disc = cfg["gamma"] * (1 - done)
        nxt = torch.cat([v[1:], v_last[None]])
        delta = rho_c * (rew + disc * nxt - v)
        acc = torch.zeros_like(v_last)
        dc = disc * c
        out = []
        for t in range(len(rew) - 1, -1, -1):
            acc = torch.addcmul(delta[t], dc[t], acc)
            out.append(acc)
        vs = torch.stack(out[::-1]) + v
        vs_next = torch.cat([vs[1:], v_last[None]])
        adv = rho_c * (rew + disc * vs_next - v)
    return vs, adv


def main():
    with open(os.path.join(HERE, "config.json")) as f:
        cfg = json.load(f)
    torch.manual_seed(cfg["seed"])
    torch.set_num_threads(cfg["torch_threads"])
    ctx = mp.get_context("spawn")
    net = Net(Pursuit.OBS, Pursuit.ACT, cfg["hidden"])
    shared = [p.detach().clone().share_memory_() for p in net.parameters()]
    slots = make_slots(cfg)
    free_q, full_q, stop = ctx.Queue(), ctx.Queue(), ctx.Event()
    for i in range(cfg["slots"]):
        free_q.put(i)
    procs = [ctx.Process(target=run_actor, args=(r, cfg, shared, slots, free_q, full_q, stop), daemon=True)
             for r in range(cfg["n_actors"])]
    for p in procs:
        p.start()

    opt = torch.optim.RMSprop(net.parameters(), lr=cfg["lr"], alpha=0.99, eps=1e-4, foreach=True)
    T, B = cfg["unroll"], cfg["envs_per_actor"]
    frames = k = 0
    wins = overs = 0.0
    t0, f0 = time.time(), 0
    try:
        while frames < cfg["total_frames"]:
            i = full_q.get()
            s = {n: x.clone() for n, x in slots[i].items()}
            free_q.put(i)
            logits, v = net(s["obs"].flatten(0, 1))
            logits, v = logits.view(T + 1, B, -1)[:-1], v.view(T + 1, B)
            lp_all = F.log_softmax(logits, -1)
            lp = lp_all.gather(2, s["act"][..., None]).squeeze(-1)
            vs, adv = vtrace(s["logp"], lp.detach(), s["rew"], s["done"], v[:-1].detach(), v[-1].detach(), cfg)
            pg = -(lp * adv).mean()
            vl = F.mse_loss(v[:-1], vs)
            ent = -(lp_all.exp() * lp_all).sum(-1).mean()
            loss = pg + cfg["value_coef"] * vl - cfg["entropy"] * ent
            opt.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), cfg["grad_clip"])
            opt.step()
            with torch.no_grad():
                torch._foreach_copy_(shared, list(net.parameters()))

            frames += T * B
            k += 1
            wins += float(s["wins"])
            overs += float(s["over"])
            if k % cfg["print_every"] == 0:
                now = time.time()
                print(f"[{k:6d}] frames={frames} caught={wins / max(overs, 1):.3f} loss={loss.item():.4f} "
                      f"ent={ent.item():.3f} fps={(frames - f0) / (now - t0):.0f}", flush=True)
                t0, f0, wins, overs = now, frames, 0.0, 0.0
    finally:
        stop.set()
        for p in procs:
            p.join(2)
            if p.is_alive():
                p.terminate()


if __name__ == "__main__":
    main()

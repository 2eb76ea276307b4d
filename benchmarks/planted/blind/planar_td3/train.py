import os
import sys
import time

import numpy as np
import torch
import yaml
from tqdm import trange

from agents.td3 import TD3, Ring
from envs.arm import ArmEnv, ArmVec

HERE = os.path.dirname(os.path.abspath(__file__))


def load_cfg():
    name = sys.argv[1] if len(sys.argv) > 1 else "default"
    with open(os.path.join(HERE, "configs", name + ".yaml")) as f:
        return yaml.safe_load(f)


def evaluate(agent, env, episodes):
    rets, dist = [], []
    for ep in range(episodes):
        o, _ = env.reset(seed=1000 + ep)
        R, over = 0.0, False
        while not over:
            a = agent.act(o[None])[0]
            o, r, term, trunc, _ = env.step(a)
            R += r
            over = term or trunc
        rets.append(R)
        dist.append(float(np.linalg.norm(o[-2:])))
    return float(np.mean(rets)), float(np.mean(dist))


def main():
    cfg = load_cfg()
    torch.manual_seed(cfg["seed"]); np.random.seed(cfg["seed"])
    torch.set_num_threads(1)
    n = cfg["num_envs"]
    env, test_env = ArmVec(n, cfg["seed"]), ArmEnv()
    agent = TD3(env.obs_dim, env.act_dim, cfg)
    buf = Ring(cfg["buffer_size"], env.obs_dim, env.act_dim)

    obs = env.reset()
    best, last_eval = -1e9, (float("nan"), float("nan"))
    loss_acc, t_mark, s_mark = [], time.time(), 0
    bar = trange(0, cfg["total_steps"], n, mininterval=2.0, unit="vec")
    for step in bar:
        if step < cfg["warmup"]:
            act = np.random.uniform(-1, 1, (n, env.act_dim)).astype(np.float32)
        else:
            act = agent.act(obs, cfg["noise"])
        nobs, rew, trunc, last = env.step(act)
        buf.add(obs, act, rew, last, np.zeros(n, np.float32))  # only time limits here, so always bootstrap
        obs = nobs

        if step >= cfg["warmup"]:
            loss_acc.append(agent.update(*buf.get(cfg["batch_size"])))

        if step >= cfg["warmup"] and step % cfg["eval"]["interval"] < n:
            last_eval = evaluate(agent, test_env, cfg["eval"]["episodes"])
            if last_eval[0] > best:
                best = last_eval[0]
                # torch.save(agent.actor.state_dict(), ...)   # TODO put back

        if step % cfg["log_interval"] < n and loss_acc:
            now = time.time()
            bar.write(f"steps={step} critic={torch.stack(loss_acc).mean():.4f} eval_ret={last_eval[0]:.1f} "
                      f"final_dist={last_eval[1]:.3f} sps={(step - s_mark) / (now - t_mark):.0f}", file=sys.stdout)
            sys.stdout.flush()
            loss_acc, t_mark, s_mark = [], now, step


if __name__ == "__main__":
    main()

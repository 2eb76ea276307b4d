import numpy as np
import torch
import torch.multiprocessing as mp

from .env import BlockWorld


def actor_main(rank, shared_net, queue, cfg):
    torch.set_num_threads(cfg["torch"]["num_threads"])
    torch.manual_seed(cfg["torch"]["seed"] + 100 + rank)
    k, T = cfg["envs_per_actor"], cfg["unroll"]
    envs = [BlockWorld(1000 * rank + i) for i in range(k)]
    obs = np.stack([e.reset() for e in envs])
    while mp.parent_process().is_alive():
        o = np.zeros((T + 1, k) + obs.shape[1:], np.uint8)
        a = np.zeros((T, k), np.int64)
        mu, r, d = (np.zeros((T, k), np.float32) for _ in range(3))
        for t in range(T):
            with torch.no_grad():
                logits, _ = shared_net(torch.from_numpy(obs))
                logp = torch.log_softmax(logits, -1)
                act = torch.multinomial(logp.exp(), 1)
                mu[t] = logp.gather(1, act)[:, 0].numpy()
            o[t], a[t] = obs, act[:, 0].numpy()
            for i, e in enumerate(envs):
                ob, r[t, i], done, _ = e.step(int(a[t, i]))
                d[t, i] = done
                obs[i] = e.reset() if done else ob
        o[T] = obs
        queue.put((rank, o, a, mu, r, d), timeout=30)

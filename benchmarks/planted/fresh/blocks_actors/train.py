import os
import time

import torch
import torch.multiprocessing as mp
import yaml

from blocks.actor import actor_main
from blocks.env import BlockWorld
from blocks.learner import Learner
from blocks.net import ConvAC


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "settings.yaml")) as f:
        cfg = yaml.safe_load(f)
    torch.set_num_threads(cfg["torch"]["num_threads"])
    torch.manual_seed(cfg["torch"]["seed"])
    ctx = mp.get_context("spawn")
    net = ConvAC(BlockWorld.N_ACTIONS)
    net.share_memory()
    queue = ctx.Queue(maxsize=cfg["queue_size"])
    actors = [ctx.Process(target=actor_main, args=(i, net, queue, cfg), daemon=True) for i in range(cfg["actors"])]
    for p in actors:
        p.start()
    learner = Learner(net, cfg["learner"])
    frames, rew, t0 = 0, 0.0, None
    for b in range(1, cfg["learner"]["batches"] + 1):
        rank, *batch = queue.get()
        t0 = t0 or time.time()
        loss = learner.learn(*batch)
        frames += batch[1].size
        rew = 0.98 * rew + 0.02 * float(batch[3].sum(0).mean())
        if b % 5 == 0:
            print(f"batch {b} frames {frames} reward/unroll {rew:.3f} loss {loss:.3f} "
                  f"{frames / (time.time() - t0):.0f} frames/s", flush=True)
    for p in actors:
        p.terminate()


if __name__ == "__main__":
    main()

"""Fine-tune a battery dispatch policy online, starting from logged operation."""
import logging
import time
from pathlib import Path

import torch
import yaml
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer

from market import DispatchEnv, load_history
from qlambda import QLambda

log = logging.getLogger("dispatch")
KEYS = ["observation", "action", "episode", ("next", "observation"), ("next", "reward"),
        ("next", "done"), ("next", "terminated")]


def make_buffer(cfg):
    num, length = cfg["buffer"]["slices"], cfg["buffer"]["slice_len"]
    return TensorDictReplayBuffer(
        storage=LazyTensorStorage(cfg["buffer"]["capacity"]),
        sampler=SliceSampler(slice_len=length, traj_key="episode", strict_length=True),
        batch_size=num * length,
    )


class EpisodeCounter:
    """Online trajectories get ids after those of the history."""

    def __init__(self, start):
        self.next_id = start

    def label(self, data):
        n, horizon = data.batch_size
        ids = torch.arange(self.next_id, self.next_id + n)
        self.next_id += n
        data["episode"] = ids.unsqueeze(-1).expand(n, horizon).clone()
        return data


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    cfg = yaml.safe_load((Path(__file__).parent / "configs" / "default.yaml").read_text())
    torch.manual_seed(cfg["seed"])

    buffer = make_buffer(cfg)
    hist = cfg["history"]
    buffer.extend(load_history(hist["episodes"], cfg["horizon"], hist["noise"], cfg["seed"]).select(*KEYS))
    counter = EpisodeCounter(hist["episodes"])
    log.info("history: %d transitions", len(buffer))

    env = DispatchEnv(cfg["sites"], cfg["horizon"], seed=cfg["seed"] + 1)
    agent = QLambda(cfg["agent"], env.action_spec)
    frames_per_batch = cfg["sites"] * cfg["horizon"]            # whole episodes
    collector = Collector(env, agent.policy, frames_per_batch=frames_per_batch,
                          total_frames=cfg["frames"], device="cpu")

    num, length = cfg["buffer"]["slices"], cfg["buffer"]["slice_len"]
    started, frames = time.time(), 0
    for i, data in enumerate(collector):
        frames += data.numel()
        agent.greedy.step(data.numel())
        profit = data["next", "reward"].sum(1).mean()
        buffer.extend(counter.label(data).select(*KEYS).reshape(-1))

        losses = []
        for _ in range(cfg["agent"]["updates_per_batch"]):
            batch = buffer.sample().reshape(num, length)
            losses.append(agent.update(batch))
        collector.update_policy_weights_()

        if i % 10 == 0:
            log.info("frames %d  profit/day %.3f  loss %.5f  eps %.3f  %.0f frames/s", frames, profit.item(),
                     torch.stack(losses).mean().item(), agent.greedy.eps.item(), frames / (time.time() - started))
        if i % 500 == 499:
            torch.save(agent.net.state_dict(), Path(__file__).parent / "dispatch_q.pt")


if __name__ == "__main__":
    main()

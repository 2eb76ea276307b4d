import time
from dataclasses import dataclass

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer
from torchrl.modules import MLP, EGreedyModule, QValueModule
from torchrl.objectives import DQNLoss, SoftUpdate, ValueEstimators

from building import N_ACT, N_OBS, Building
from logbook import load_history

torch.set_num_threads(1)


@dataclass
class Cfg:
    rooms: int = 32
    frames_per_batch: int = 256
    total_frames: int = 25_600_000
    history_days: int = 38_000
    buffer: int = 4_000_000
    slice_len: int = 8
    batch: int = 512
    updates: int = 16
    lr: float = 5e-4
    gamma: float = 0.97
    lmbda: float = 0.8
    eps: float = 0.1
    seed: int = 0


KEEP = ["observation", "action", ("collector", "traj_ids"), ("next", "observation"), ("next", "reward"), ("next", "done"), ("next", "terminated")]


def main(cfg):
    torch.manual_seed(cfg.seed)
    env = Building(cfg.rooms)
    net = TensorDictModule(MLP(in_features=N_OBS, out_features=N_ACT, num_cells=[64, 64]), in_keys=["observation"], out_keys=["action_value"])
    qvalue = TensorDictSequential(net, QValueModule(spec=env.action_spec_unbatched, action_space="categorical"))
    greedy = EGreedyModule(spec=env.action_spec_unbatched, eps_init=cfg.eps, eps_end=cfg.eps)
    collector = Collector(
        env, TensorDictSequential(qvalue, greedy), frames_per_batch=cfg.frames_per_batch, total_frames=cfg.total_frames, auto_register_policy_transforms=False,
    )
    rb = TensorDictReplayBuffer(
        storage=LazyTensorStorage(cfg.buffer),
        sampler=SliceSampler(slice_len=cfg.slice_len, traj_key=("collector", "traj_ids"), strict_length=True),
        batch_size=cfg.batch,
    )
    rb.extend(load_history(cfg.history_days).select(*KEEP))
    loss_fn = DQNLoss(qvalue, loss_function="smooth_l1", delay_value=True, action_space="categorical")
    loss_fn.make_value_estimator(ValueEstimators.TDLambda, gamma=cfg.gamma, lmbda=cfg.lmbda)
    target = SoftUpdate(loss_fn, tau=0.01)
    opt = torch.optim.Adam(loss_fn.parameters(), lr=cfg.lr)

    frames, t0 = 0, time.time()
    for i, data in enumerate(collector):
        rb.extend(data.select(*KEEP).reshape(-1))
        frames += data.numel()
        for _ in range(cfg.updates):
            batch = rb.sample().reshape(-1, cfg.slice_len)
            loss = loss_fn(batch)["loss"]
            opt.zero_grad()
            loss.backward()
            opt.step()
            target.step()
        if i % 20 == 0:
            print(
                f"{frames:9d} frames  reward {data['next', 'reward'].mean().item():.3f}  loss {loss.item():.4f}  "
                f"{frames / (time.time() - t0):.0f} fps", flush=True,
            )


if __name__ == "__main__":
    main(Cfg())

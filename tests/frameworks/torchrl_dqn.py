"""DQN on CartPole-v1 with TorchRL.

usage: python torchrl_dqn.py [total_frames=8000]
"""

import json
import os
import random
import sys

import numpy as np
import torch
from tensordict.nn import TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import StepCounter, TransformedEnv
from torchrl.envs.libs.gym import GymEnv
from torchrl.modules import MLP, EGreedyModule, QValueActor
from torchrl.objectives import DQNLoss, SoftUpdate

SEED = 5
PER_ITER = 8
WARMUP = 256
BATCH = 64


def main(total_frames):
    torch.set_num_threads(1)
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)

    env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter())
    env.set_seed(SEED)
    n_obs = env.observation_spec["observation"].shape[-1]
    n_act = env.action_spec.space.n
    qnet = QValueActor(
        MLP(in_features=n_obs, out_features=n_act, num_cells=[64, 64], activation_class=nn.ReLU),
        in_keys=["observation"],
        spec=env.full_action_spec,
    )
    eps = EGreedyModule(env.full_action_spec, eps_init=1.0, eps_end=0.05, annealing_num_steps=total_frames // 2)
    explorer = TensorDictSequential(qnet, eps)

    loss_fn = DQNLoss(qnet, action_space=env.action_spec, delay_value=True, loss_function="smooth_l1")
    loss_fn.make_value_estimator(gamma=0.99)
    target = SoftUpdate(loss_fn, tau=0.01)
    optim = torch.optim.Adam(loss_fn.parameters(), lr=1e-3)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(10_000), batch_size=BATCH)
    collector = Collector(
        env,
        explorer,
        frames_per_batch=PER_ITER,
        total_frames=total_frames,
        init_random_frames=WARMUP,
    )

    frames = 0
    longest = 0
    for data in collector:
        frames += data.numel()
        longest = max(longest, int(data["next", "step_count"].max()))
        buffer.extend(data.reshape(-1))
        if frames < WARMUP:
            continue
        eps.step(data.numel())
        for _ in range(2):
            batch = buffer.sample()
            loss = loss_fn(batch)["loss"]
            optim.zero_grad()
            loss.backward()
            optim.step()
            target.step()
        collector.update_policy_weights_()
        if frames % 1000 < PER_ITER:
            print(f"frames {frames} longest {longest} loss {loss.item():.3f}", flush=True)

    env_steps = collector._frames
    assert env_steps == frames
    collector.shutdown()
    with open(os.environ.get("RESULT", "result.json"), "w") as fh:
        weights = [float(p.detach().sum()) for p in qnet.parameters()]
        json.dump({"env_steps": int(env_steps), "weights": weights}, fh)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8000)

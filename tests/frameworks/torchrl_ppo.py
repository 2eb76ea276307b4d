"""PPO on CartPole-v1 with TorchRL.

usage: python torchrl_ppo.py [total_frames=12288] [single|serial|subproc]
"""

import json
import os
import random
import sys
from functools import partial

import numpy as np
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.envs import ParallelEnv, RewardSum, SerialEnv, TransformedEnv
from torchrl.envs.libs.gym import GymEnv
from torchrl.modules import MLP, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

SEED = 3
BATCH = 512
MINIBATCH = 128
EPOCHS = 4


def cartpole():
    return GymEnv("CartPole-v1", categorical_action_encoding=True)


def build_env(kind):
    if kind == "single":
        base = cartpole()
    elif kind == "serial":
        base = SerialEnv(4, cartpole)
    elif kind == "subproc":
        base = ParallelEnv(2, cartpole)
    else:
        raise SystemExit(f"unknown env kind {kind!r}")
    env = TransformedEnv(base, RewardSum())
    env.set_seed(SEED)
    return env


def build_nets(env):
    n_obs = env.observation_spec["observation"].shape[-1]
    n_act = env.action_spec_unbatched.space.n
    mlp = partial(MLP, in_features=n_obs, num_cells=[64, 64], activation_class=nn.Tanh)
    actor = ProbabilisticActor(
        TensorDictModule(mlp(out_features=n_act), in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=Categorical,
        return_log_prob=True,
        spec=env.full_action_spec_unbatched,
    )
    critic = ValueOperator(mlp(out_features=1), in_keys=["observation"])
    return actor, critic


def main(total_frames, kind):
    torch.set_num_threads(1)
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)

    env = build_env(kind)
    actor, critic = build_nets(env)
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic, average_gae=True)
    loss_fn = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.01, critic_coeff=0.5)
    optim = torch.optim.Adam(loss_fn.parameters(), lr=3e-4)
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(BATCH),
        sampler=SamplerWithoutReplacement(),
        batch_size=MINIBATCH,
    )
    collector = Collector(env, actor, frames_per_batch=BATCH, total_frames=total_frames)

    frames = 0
    for it, rollout in enumerate(collector):
        frames += rollout.numel()
        for _ in range(EPOCHS):
            with torch.no_grad():
                advantage(rollout)
            buffer.extend(rollout.reshape(-1))
            for batch in buffer:
                losses = loss_fn(batch)
                loss = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
                optim.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(loss_fn.parameters(), 0.5)
                optim.step()
        collector.update_policy_weights_()
        ended = rollout["next", "done"]
        if ended.any() and it % 4 == 0:
            mean_return = rollout["next", "episode_reward"][ended].mean().item()
            print(f"frames {frames} return {mean_return:.1f} loss {loss.item():.3f}", flush=True)

    env_steps = collector._frames
    assert env_steps == frames
    collector.shutdown()
    with open(os.environ.get("RESULT", "result.json"), "w") as fh:
        weights = [float(p.detach().sum()) for p in loss_fn.parameters()]
        json.dump({"env_steps": int(env_steps), "weights": weights}, fh)


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 12288,
        sys.argv[2] if len(sys.argv) > 2 else "single",
    )

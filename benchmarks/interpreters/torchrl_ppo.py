"""TorchRL's PPO on CartPole, from 0.6 on: `python torchrl_ppo.py STEPS`."""

import hashlib
import json
import sys

import torch
import torchrl.collectors
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.envs import RewardSum, SerialEnv, TransformedEnv
from torchrl.envs.libs.gym import GymEnv
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

Collector = getattr(torchrl.collectors, "Collector", None) or torchrl.collectors.SyncDataCollector
BATCH, MINIBATCH, EPOCHS = 512, 128, 4


def mlp(out):
    return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, out))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    total = int(sys.argv[1])
    env = TransformedEnv(SerialEnv(4, lambda: GymEnv("CartPole-v1", categorical_action_encoding=True)), RewardSum())
    env.set_seed(0)
    actor = ProbabilisticActor(
        TensorDictModule(mlp(2), in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=Categorical,
        return_log_prob=True,
    )
    critic = ValueOperator(mlp(1), in_keys=["observation"])
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic, average_gae=True)
    loss = ClipPPOLoss(actor, critic, clip_epsilon=0.2)
    optimizer = torch.optim.Adam(loss.parameters(), lr=3e-4)
    buffer = ReplayBuffer(storage=LazyTensorStorage(BATCH), sampler=SamplerWithoutReplacement(), batch_size=MINIBATCH)
    collector, steps = Collector(env, actor, frames_per_batch=BATCH, total_frames=total), 0
    for data in collector:
        steps += data.numel()
        for _ in range(EPOCHS):
            with torch.no_grad():
                advantage(data)
            buffer.empty()
            buffer.extend(data.reshape(-1))
            for _ in range(BATCH // MINIBATCH):
                losses = loss(buffer.sample())
                optimizer.zero_grad()
                (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
                optimizer.step()
    collector.shutdown()
    weights = b"".join(value.numpy().tobytes() for value in loss.state_dict().values() if torch.is_tensor(value))
    print(json.dumps({"env_steps": steps, "weights": hashlib.sha256(weights).hexdigest()}))


if __name__ == "__main__":
    main()

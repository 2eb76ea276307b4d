"""PPO on CartPole with TorchRL."""

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import GymEnv, ParallelEnv
from torchrl.modules import OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

NUM_ENVS = 8
FRAMES = 256
EPOCHS = 3


def make_env():
    return GymEnv("CartPole-v1", device="cpu")


def make_models():
    body = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    actor = ProbabilisticActor(
        TensorDictModule(body, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )
    critic = ValueOperator(
        nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)),
        in_keys=["observation"],
    )
    return actor, critic


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.distributions.Distribution.set_default_validate_args(False)
    env = ParallelEnv(NUM_ENVS, make_env, mp_start_method="fork")
    env.set_seed(0)
    actor, critic = make_models()
    collector = Collector(
        env, actor, frames_per_batch=FRAMES, total_frames=10_240_000, device="cpu",
        auto_register_policy_transforms=False
    )
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic, average_gae=True)
    loss_module = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.01)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=1e-3, foreach=True)
    try:
        for batch in collector:
            with torch.no_grad():
                advantage(batch)
            data = batch.reshape(-1)
            for _ in range(EPOCHS):
                losses = loss_module(data)
                loss = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(loss_module.parameters(), 0.5)
                optimizer.step()
    finally:
        collector.shutdown()


if __name__ == "__main__":
    main()

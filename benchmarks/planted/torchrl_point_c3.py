"""PPO on a plane of points with TorchRL."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Categorical, Composite, Unbounded
from torchrl.envs import EnvBase
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

NUM_ENVS = 1024
FRAMES = 16384
EPOCHS = 2


class PointEnv(EnvBase):
    """Move points towards their goals on a plane, all of them at once."""

    def __init__(self, num_envs, seed):
        super().__init__(device="cpu", batch_size=[num_envs])
        self.observation_spec = Composite(
            observation=Unbounded((*self.batch_size, 6)), shape=self.batch_size
        )
        self.action_spec = Categorical(5, shape=self.batch_size)
        self.reward_spec = Unbounded((*self.batch_size, 1))
        self.moves = 0.05 * torch.tensor([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])
        self.set_seed(seed)

    def _set_seed(self, seed):
        self.rng = torch.Generator().manual_seed(seed)

    def _observe(self):
        return torch.cat([self.position, self.goal, self.goal - self.position], dim=-1)

    def _reset(self, tensordict=None, **kwargs):
        self.position, self.goal = torch.rand(2, *self.batch_size, 2, generator=self.rng)
        self.time = 0
        return TensorDict({"observation": self._observe()}, self.batch_size)

    def _step(self, tensordict):
        self.position = (self.position + self.moves[tensordict["action"]]).clamp(0.0, 1.0)
        self.time += 1
        distance = (self.goal - self.position).norm(dim=-1, keepdim=True)
        done = torch.full((*self.batch_size, 1), self.time >= 100)
        out = {"observation": self._observe(), "reward": -distance, "done": done}
        return TensorDict(out, self.batch_size)


def mlp(outputs):
    return nn.Sequential(
        nn.LazyLinear(64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)
    )


def make_models(env):
    actor = ProbabilisticActor(
        TensorDictModule(mlp(5), in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )
    critic = ValueOperator(mlp(1), in_keys=["observation"])
    sample = env.reset()
    actor(sample)
    critic(sample)
    return actor, critic


def main():
    torch.manual_seed(5)
    torch.set_num_threads(1)
    torch.distributions.Distribution.set_default_validate_args(False)
    env = PointEnv(NUM_ENVS, seed=5)
    actor, critic = make_models(env)
    collector = Collector(
        env, actor, frames_per_batch=FRAMES, total_frames=FRAMES * 100_000,
        auto_register_policy_transforms=False,
    )
    advantage = GAE(gamma=0.97, lmbda=0.95, value_network=critic, average_gae=True)
    loss_module = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.01)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=1e-3, foreach=True)
    for batch in collector:
        with torch.no_grad():
            advantage(batch)
        data = batch.reshape(-1)
        for _ in range(EPOCHS):
            order = torch.randperm(FRAMES)
            for rows in order.split(8192):
                losses = loss_module(data[rows])
                loss = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(loss_module.parameters(), 0.5)
                optimizer.step()
    collector.shutdown()


if __name__ == "__main__":
    main()

"""DQN on a point-reaching task with TorchRL."""

import argparse

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import Categorical, Composite, LazyTensorStorage, TensorDictReplayBuffer, Unbounded
from torchrl.envs import EnvBase
from torchrl.modules import MLP, EGreedyModule, QValueActor
from torchrl.objectives import DQNLoss, SoftUpdate

NUM_ENVS = 64
FRAMES = 512


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--seed", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    env = PointEnv(NUM_ENVS, args.seed)
    net = MLP(in_features=6, out_features=5, num_cells=[64, 64])
    actor = QValueActor(net, in_keys=["observation"], action_space="categorical")
    explore = TensorDictSequential(
        actor, EGreedyModule(env.action_spec, annealing_num_steps=200_000, eps_end=0.05)
    )
    collector = Collector(
        env,
        explore,
        frames_per_batch=FRAMES,
        total_frames=FRAMES * 100_000,
        device="cpu",
        auto_register_policy_transforms=False,
    )
    replay = TensorDictReplayBuffer(storage=LazyTensorStorage(100_000), batch_size=args.batch_size)
    loss_module = DQNLoss(actor, action_space="categorical", delay_value=True)
    loss_module.make_value_estimator(gamma=0.97)
    target = SoftUpdate(loss_module, tau=0.005)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=1e-3, foreach=True)
    for batch in collector:
        replay.extend(batch.reshape(-1))
        for _ in range(args.updates):
            loss = loss_module(replay.sample())["loss"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            target.step()
        explore[1].step(FRAMES)
    collector.shutdown()


if __name__ == "__main__":
    main()

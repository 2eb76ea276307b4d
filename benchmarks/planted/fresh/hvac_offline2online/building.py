import torch
from tensordict import TensorDict
from torchrl.data import Binary, Bounded, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase

N_OBS, N_ACT = 5, 5


def thermal(s, action, out):
    """One 15-minute step for a batch of rooms. s: room temp, wall temp, hour, setpoint, last power."""
    power = action.float() / (N_ACT - 1)
    room, wall, hour, setp, _ = s.unbind(-1)
    room2 = room + 0.2 * (wall - room) + 0.1 * (out - room) + 2.0 * power
    wall2 = wall + 0.05 * (room - wall) + 0.02 * (out - wall)
    hour2 = (hour + 0.25) % 24
    nxt = torch.stack([room2, wall2, hour2, setp, power], -1)
    rew = -(room2 - setp).abs() - 0.3 * power
    return nxt, rew


def scale(s):
    return (s - torch.tensor([20.0, 18.0, 12.0, 20.0, 0.5])) / torch.tensor([5.0, 5.0, 7.0, 2.0, 0.5])


def fresh(n):
    s = torch.zeros(n, N_OBS)
    s[:, 0] = 18 + 4 * torch.rand(n)
    s[:, 1] = s[:, 0] - 1
    s[:, 2] = torch.randint(0, 96, (n,)) / 4
    s[:, 3] = 19 + 3 * torch.rand(n)
    return s


def outside(hour):
    return 5 + 6 * torch.sin((hour - 8) / 24 * 6.2832)


class Building(EnvBase):
    """A batch of rooms; an episode is one day."""

    def __init__(self, rooms=32, day=96):
        super().__init__(batch_size=[rooms])
        self.day = day
        shape = (rooms,)
        self.observation_spec = Composite(observation=Unbounded((rooms, N_OBS)), shape=shape)
        self.action_spec = Categorical(N_ACT, shape=shape)
        self.reward_spec = Unbounded((rooms, 1))
        self.done_spec = Composite(
            done=Binary(1, shape=(rooms, 1), dtype=torch.bool),
            terminated=Binary(1, shape=(rooms, 1), dtype=torch.bool), shape=shape,
        )
        self.s = fresh(rooms)
        self.t = torch.zeros(rooms, dtype=torch.long)

    def _flags(self):
        return torch.zeros(self.batch_size[0], 1, dtype=torch.bool)

    def _reset(self, td):
        mask = td["_reset"].view(-1) if td is not None and "_reset" in td.keys() else torch.ones(self.batch_size[0], dtype=torch.bool)
        self.s[mask] = fresh(int(mask.sum()))
        self.t[mask] = torch.randint(0, self.day // 2, (int(mask.sum()),))
        return TensorDict({"observation": scale(self.s), "done": self._flags(), "terminated": self._flags()}, self.batch_size)

    def _step(self, td):
        self.s, r = thermal(self.s, td["action"], outside(self.s[:, 2]))
        self.t = self.t + 1
        done = (self.t >= self.day).unsqueeze(-1)
        return TensorDict(
            {"observation": scale(self.s), "reward": r.unsqueeze(-1), "done": done, "terminated": self._flags()}, self.batch_size
        )

    def _set_seed(self, seed):
        torch.manual_seed(seed)

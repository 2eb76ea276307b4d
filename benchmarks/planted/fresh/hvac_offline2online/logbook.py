"""History of the old thermostat rule, in the layout the collector produces."""
import torch
from tensordict import TensorDict

from building import N_ACT, N_OBS, fresh, outside, scale, thermal


@torch.no_grad()
def load_history(days, steps=96):
    s = fresh(days)
    obs = torch.empty(days, steps, N_OBS)
    nxt = torch.empty(days, steps, N_OBS)
    act = torch.empty(days, steps, dtype=torch.long)
    rew = torch.empty(days, steps, 1)
    for t in range(steps):
        want = ((s[:, 3] - s[:, 0]) * 2).round().long().clamp(0, N_ACT - 1)
        a = torch.where(torch.rand(days) < 0.15, torch.randint(0, N_ACT, (days,)), want)
        s2, r = thermal(s, a, outside(s[:, 2]))
        obs[:, t], nxt[:, t], act[:, t], rew[:, t, 0] = scale(s), scale(s2), a, r
        s = s2
    done = torch.zeros(days, steps, 1, dtype=torch.bool)
    done[:, -1] = True
    ids = torch.arange(days).unsqueeze(1).expand(days, steps) + 1_000_000_000
    td = TensorDict(
        {
            "observation": obs, "action": act, "collector": {"traj_ids": ids.contiguous()},
            "next": {"observation": nxt, "reward": rew, "done": done, "terminated": torch.zeros_like(done)},
        },
        [days, steps],
    )
    return td.reshape(-1)

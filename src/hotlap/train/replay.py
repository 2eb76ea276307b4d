"""Replay memory: a ring of transitions on the training device, written and drawn in batches.

`add` takes one vector step (a row per environment) and writes it with one copy per field. N-step returns are kept in place:
a new row also extends the n-1 rows before it, up to the end of their episode, so every stored row is always usable.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Batch(NamedTuple):
    """B transitions: the target of an action's value is `reward + discount * value(next_obs)`."""

    obs: Tensor  # [B, ...]
    action: Tensor  # [B] int64
    reward: Tensor  # [B] discounted sum over up to n steps
    discount: Tensor  # [B] gamma ** steps, or 0 where the episode terminated
    next_obs: Tensor  # [B, ...] the true observation after those steps, never the one after a reset
    rows: Tensor  # [B] where they lie, for `set_priorities`
    weight: Tensor | None  # [B] importance weights, if prioritised


class SumTree:
    """Draws indices in proportion to their priorities, many at a time.

    A tree with 32 children per node instead of two: a million leaves are four levels deep, so a batched draw or update is a
    handful of tensor operations. Sums are recomputed from the children, so no error builds up.
    """

    FAN = 32

    def __init__(self, capacity: int, device: torch.device) -> None:
        self.levels: list[Tensor] = []
        size = capacity
        while True:
            blocks = -(-size // self.FAN)
            self.levels.append(torch.zeros(blocks * self.FAN, dtype=torch.float64, device=device))
            if blocks == 1:
                break
            size = blocks

    @property
    def total(self) -> Tensor:
        return self.levels[-1].sum()

    def get(self, index: Tensor) -> Tensor:
        return self.levels[0][index]

    def set(self, index: Tensor, priority: Tensor) -> None:
        """Give leaves [B] new priorities [B] >= 0."""
        self.levels[0][index] = priority
        for below, above in zip(self.levels, self.levels[1:], strict=False):
            index = index // self.FAN
            above[index] = below.view(-1, self.FAN).index_select(0, index).sum(dim=1)

    def set_range(self, begin: int, end: int, priority: Tensor) -> None:
        """Give neighbouring leaves one priority."""
        self.levels[0][begin:end] = priority
        for below, above in zip(self.levels, self.levels[1:], strict=False):
            begin, end = begin // self.FAN, -(-end // self.FAN)
            above[begin:end] = below.view(-1, self.FAN)[begin:end].sum(dim=1)

    def draw(self, positions: Tensor) -> Tensor:
        """The leaves [B] that the cumulative priorities `positions` [B], each in [0, total), fall into."""
        node = torch.zeros_like(positions, dtype=torch.int64)
        rest = positions
        for level in reversed(self.levels):
            children = level.view(-1, self.FAN).index_select(0, node)
            sums = children.cumsum(dim=1)
            # Rounding may push a position past the last child: then take the last one that has any priority.
            rest = torch.minimum(rest, sums[:, -1] * (1 - 1e-12))
            child = torch.searchsorted(sums, rest[:, None], right=True)
            rest = rest - (sums.sub_(children)).gather(1, child)[:, 0]
            node = node * self.FAN + child[:, 0]
        return node


class Replay:
    """The last `capacity` transitions of `num_envs` environments.

    `alpha` > 0 draws in proportion to priority ** alpha, else uniformly. New transitions get the highest priority so far.
    """

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        obs_shape: Sequence[int],
        obs_dtype: torch.dtype,
        gamma: float,
        n_step: int = 1,
        alpha: float = 0.0,
        device: torch.device | str = "cpu",
    ) -> None:
        rows = capacity // num_envs
        if rows < n_step:
            raise ValueError(f"a buffer of {capacity:,} holds fewer than {n_step} steps of {num_envs:,} environments")
        self.device = torch.device(device)
        self.num_envs, self.rows, self.n_step, self.gamma, self.alpha = num_envs, rows, n_step, gamma, alpha
        size = rows * num_envs
        try:
            self.obs = torch.zeros((size, *obs_shape), dtype=obs_dtype, device=self.device)
        except RuntimeError:
            raise ValueError(f"a buffer of {capacity:,} transitions does not fit into memory") from None
        self.next_obs = torch.zeros_like(self.obs)
        self.action = torch.zeros(size, dtype=torch.int64, device=self.device)
        self.reward = torch.zeros(size, device=self.device)
        self.discount = torch.zeros(size, device=self.device)
        self.open = torch.zeros(size, dtype=torch.bool, device=self.device)  # the episode goes on after this row's last step
        self.written = 0  # rows ever written
        self.tree = SumTree(size, self.device) if alpha > 0 else None
        self.top_priority = torch.ones((), dtype=torch.float64, device=self.device)

    def __len__(self) -> int:
        return min(self.written, self.rows) * self.num_envs

    def add(self, obs: Tensor, action: Tensor, reward: Tensor, next_obs: Tensor, terminated: Tensor, truncated: Tensor) -> None:
        """Store one vector step: all arguments [num_envs, ...]. `next_obs` is the true one, before any auto-reset."""
        row = self._row(0)
        discount = self.gamma * (1 - terminated.to(torch.float32))
        running = ~(terminated | truncated)
        self.obs[row] = obs
        self.action[row] = action
        self.reward[row] = reward
        self.discount[row] = discount
        self.next_obs[row] = next_obs
        if self.n_step > 1:
            self.open[row] = running
            for steps in range(1, min(self.n_step, self.written + 1)):
                self._extend(self._row(-steps), steps, reward, discount, next_obs, running)
        if self.tree is not None:
            self.tree.set_range(row.start, row.stop, self.top_priority)
        self.written += 1

    def _extend(self, row: slice, steps: int, reward: Tensor, discount: Tensor, next_obs: Tensor, running: Tensor) -> None:
        """Add the newest step to a row written `steps` before it, where its episode still went on."""
        still = self.open[row]
        scale = self.gamma**steps
        self.reward[row] += scale * torch.where(still, reward, 0.0)
        self.discount[row] = torch.where(still, scale * discount, self.discount[row])
        shape = (-1,) + (1,) * (next_obs.dim() - 1)
        self.next_obs[row] = torch.where(still.view(shape), next_obs, self.next_obs[row])
        self.open[row] = still & running

    def sample(self, batch: int, generator: torch.Generator, beta: float = 0.0) -> Batch:
        """Draw `batch` transitions."""
        weight = None
        if self.tree is None:
            index = torch.randint(len(self), (batch,), generator=generator, device=self.device)
        else:
            # One draw from each of `batch` equal slices of the total: as fair as independent draws, with less variance.
            slices = torch.arange(batch, dtype=torch.float64, device=self.device)
            jitter = torch.rand(batch, dtype=torch.float64, generator=generator, device=self.device)
            total = self.tree.total
            index = self.tree.draw((slices + jitter) / batch * total)
            weight = (len(self) * self.tree.get(index) / total).pow(-beta)
            weight = (weight / weight.max()).to(torch.float32)
        return Batch(
            self.obs.index_select(0, index),
            self.action.index_select(0, index),
            self.reward.index_select(0, index),
            self.discount.index_select(0, index),
            self.next_obs.index_select(0, index),
            index,
            weight,
        )

    def set_priorities(self, index: Tensor, error: Tensor) -> None:
        """Replay transitions [B] by their errors [B] from now on."""
        assert self.tree is not None
        priority = (error.detach().abs().to(torch.float64) + 1e-6).pow(self.alpha)
        self.tree.set(index, priority)
        self.top_priority = torch.maximum(self.top_priority, priority.max())

    def state(self) -> dict[str, Tensor]:
        """The filled part, for a checkpoint."""
        used = len(self)
        fields = {name: getattr(self, name)[:used] for name in _FIELDS}
        fields["written"] = torch.tensor(self.written)
        if self.tree is not None:
            fields |= {"priority": self.tree.levels[0][:used], "top_priority": self.top_priority}
        return fields

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.written = int(state["written"])
        used = len(self)
        for name in _FIELDS:
            getattr(self, name)[:used] = state[name]
        if self.tree is not None:
            self.tree.set(torch.arange(used, device=self.device), state["priority"].to(self.device))
            self.top_priority = state["top_priority"].to(self.device)

    def _row(self, offset: int) -> slice:
        start = (self.written + offset) % self.rows * self.num_envs
        return slice(start, start + self.num_envs)


_FIELDS = ("obs", "next_obs", "action", "reward", "discount", "open")

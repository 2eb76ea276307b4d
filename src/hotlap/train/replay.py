"""Replay memory: a ring of transitions on the training device, written and drawn in batches.

`add` takes one vector step (a row per environment). N-step returns are kept in place: a new row also extends the n-1 rows
before it, up to the end of their episode, so every stored row is always usable. `Replay` is plain torch, for any device;
`CompiledReplay` does the same on a CPU in one C call each (replay.c), where a torch operation's overhead exceeds the copy it
makes; `replay_gpu` in CUDA. `replay_kind` chooses.
"""

import ctypes
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hotlap.core import native, nvrtc
from hotlap.train.priorities import make_tree


class Batch(NamedTuple):
    """B transitions: the target of an action's value is `reward + discount * value(next_obs)`."""

    obs: Tensor  # [B, ...]
    action: Tensor  # [B] int64
    reward: Tensor  # [B] discounted sum over up to n steps
    discount: Tensor  # [B] gamma ** steps, or 0 where the episode terminated
    next_obs: Tensor  # [B, ...] the true observation after those steps, never the one after a reset
    rows: Tensor  # [B] where they lie, for `set_priorities`
    weight: Tensor | None = None  # [B] importance weights, if prioritised
    next_mask: Tensor | None = None  # [B, actions] which actions are legal after those steps, if some are not


class VectorStep(NamedTuple):
    """One step of every environment, [num_envs, ...]. `next_obs` is the true one, before any auto-reset."""

    obs: Tensor
    action: Tensor
    reward: Tensor
    next_obs: Tensor
    terminated: Tensor
    truncated: Tensor
    next_mask: Tensor | None = None


class Replay:
    """The last `capacity` transitions of `num_envs` environments.

    `alpha` > 0 draws in proportion to priority ** alpha, else uniformly. New transitions get the highest priority so far.
    `choices` > 0: which of that many actions are legal is kept too.
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
        choices: int = 0,
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
        self.next_mask = torch.zeros((size, choices), dtype=torch.bool, device=self.device)
        self.action = torch.zeros(size, dtype=torch.int64, device=self.device)
        self.reward = torch.zeros(size, device=self.device)
        self.discount = torch.zeros(size, device=self.device)
        self.open = torch.zeros(size, dtype=torch.bool, device=self.device)  # the episode goes on after this row's last step
        self.written = 0  # rows ever written
        self.tree = make_tree(size, self.device) if alpha > 0 else None

    def __len__(self) -> int:
        return min(self.written, self.rows) * self.num_envs

    def add(self, step: VectorStep) -> None:
        self._write(step)
        if self.tree is not None:
            row = self._row(0)
            self.tree.open_range(row.start, row.stop)
        self.written += 1

    def _write(self, step: VectorStep) -> None:
        row = self._row(0)
        self.obs[row] = step.obs
        self.action[row] = step.action
        self.reward[row] = step.reward
        self.discount[row] = self.gamma * (1 - step.terminated.to(torch.float32))
        self.next_obs[row] = step.next_obs
        self.open[row] = ~(step.terminated | step.truncated)
        if step.next_mask is not None:
            self.next_mask[row] = step.next_mask
        for steps in range(1, min(self.n_step, self.written + 1)):
            self._extend(self._row(-steps), row, steps, step.reward)

    def _extend(self, row: slice, newest: slice, steps: int, reward: Tensor) -> None:
        """Add the newest step to a row written `steps` before it, where its episode still went on."""
        still = self.open[row].clone()
        scale = self.gamma**steps
        self.reward[row] += scale * torch.where(still, reward, 0.0)
        self.discount[row] = torch.where(still, scale * self.discount[newest], self.discount[row])
        for field in (self.next_obs, self.next_mask):
            shape = (-1,) + (1,) * (field.dim() - 1)
            field[row] = torch.where(still.view(shape), field[newest], field[row])
        self.open[row] = still & self.open[newest]

    def sample(self, batch: int, generator: torch.Generator, beta: float | Tensor = 0.0) -> Batch:
        """Draw `batch` transitions, which stay valid until the next draw."""
        if self.tree is None:
            return self._gather(torch.randint(len(self), (batch,), generator=generator, device=self.device), None)
        jitter = torch.rand(batch, dtype=torch.float64, generator=generator, device=self.device)
        return self._gather(*self.tree.sample(jitter, beta))

    def _gather(self, index: Tensor, weight: Tensor | None) -> Batch:
        return Batch(
            self.obs.index_select(0, index),
            self.action.index_select(0, index),
            self.reward.index_select(0, index),
            self.discount.index_select(0, index),
            self.next_obs.index_select(0, index),
            index,
            weight,
            self.next_mask.index_select(0, index) if self.next_mask.shape[1] else None,
        )

    def set_priorities(self, index: Tensor, error: Tensor) -> None:
        """Replay transitions [B] by their errors [B] from now on."""
        if self.tree is not None:
            self.tree.set_errors(index, error.detach(), self.alpha)

    def state(self) -> dict[str, Tensor]:
        """The filled part, for a checkpoint."""
        used = len(self)
        fields = {name: getattr(self, name)[:used] for name in _FIELDS}
        fields["written"] = torch.tensor(self.written)
        if self.tree is not None:
            fields |= {"priority": self.tree.levels[0][:used], "top_priority": self.tree.top}
        return fields

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.written = int(state["written"])
        used = len(self)
        for name in _FIELDS:
            getattr(self, name)[:used] = state[name]
        if self.tree is not None:
            self.tree.set(torch.arange(used, device=self.device), state["priority"].to(self.device))
            self.tree.top.copy_(state["top_priority"])

    def _row(self, offset: int) -> slice:
        start = (self.written + offset) % self.rows * self.num_envs
        return slice(start, start + self.num_envs)


_FIELDS = ("obs", "next_obs", "next_mask", "action", "reward", "discount", "open")


class CompiledReplay(Replay):
    """The same on a CPU, in C."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        library = replay_library()
        self._add, self._gather_rows = library.hotlap_replay_add, library.hotlap_replay_gather
        fields = (self.obs, self.next_obs, self.next_mask, self.action, self.reward, self.discount, self.open)
        obs_bytes, mask_bytes = (field[:1].numel() * field.element_size() for field in (self.obs, self.next_mask))
        sizes = (self.num_envs, self.rows, self.n_step, obs_bytes, mask_bytes)
        packed = struct.pack("=5qd7q", *sizes, self.gamma, *(field.data_ptr() for field in fields))
        self._struct = ctypes.create_string_buffer(packed, len(packed))  # replay.c's struct Ring
        self._ring = ctypes.addressof(self._struct)
        self._step = (ctypes.c_int64 * 8)()  # replay.c's struct Step
        self._batch, self._batch_step = Batch(*(torch.empty(0),) * 6), (ctypes.c_int64 * 8)()

    def _write(self, step: VectorStep) -> None:
        legal = None if step.next_mask is None else step.next_mask.contiguous()
        self._step[:] = [
            step.obs.data_ptr(),
            step.next_obs.data_ptr(),
            0 if legal is None else legal.data_ptr(),
            step.action.data_ptr(),
            step.reward.data_ptr(),
            0,
            step.terminated.data_ptr(),
            step.truncated.data_ptr(),
        ]
        self._add(self._ring, self._step, self.written)

    def _gather(self, index: Tensor, weight: Tensor | None) -> Batch:
        if len(self._batch.rows) != len(index):
            self._allocate(len(index))
        self._gather_rows(self._ring, index.data_ptr(), len(index), self._batch_step)
        return self._batch._replace(rows=index, weight=weight)

    def _allocate(self, size: int) -> None:
        masked = self.next_mask.shape[1] > 0
        fields = (self.obs, self.next_obs, self.next_mask, self.action, self.reward, self.discount)
        obs, next_obs, next_mask, action, reward, discount = (f.new_empty(size, *f.shape[1:]) for f in fields)
        rows = torch.empty(size, dtype=torch.int64)
        self._batch = Batch(obs, action, reward, discount, next_obs, rows, next_mask=next_mask if masked else None)
        self._batch_step[:6] = [part.data_ptr() for part in (obs, next_obs, next_mask, action, reward, discount)]


def replay_kind(device: torch.device) -> type[Replay]:
    """In C on a CPU or in CUDA on a GPU, where there is a compiler."""
    if device.type == "cuda" and not nvrtc.missing():
        from hotlap.train.replay_gpu import GpuReplay

        return GpuReplay
    return CompiledReplay if device.type == "cpu" and replay_library() is not None else Replay


@cache
def replay_library() -> Any:
    library = native.optional("replay", Path(__file__).with_name("replay.c"), native.EXACT)
    if library is not None:
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        library.hotlap_replay_add.argtypes = [pointer, pointer, size]
        library.hotlap_replay_gather.argtypes = [pointer, pointer, size, pointer]
        library.hotlap_replay_add.restype = library.hotlap_replay_gather.restype = None
    return library

"""Replay memory on a GPU, in a kernel each (replay.cu): written, drawn and read without a word from the host."""

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hotlap.core import nvrtc
from hotlap.train.replay import Batch, Replay, VectorStep

SOURCE = Path(__file__).with_name("replay.cu")


@cache
def program(word: str) -> nvrtc.Program:
    return nvrtc.Program(f"#define WORD {word}\n{SOURCE.read_text()}", str(SOURCE.parent))


class GpuReplay(Replay):
    """The same where the ring's position is a number on the device, so that a CUDA graph can hold `add` and `sample`."""

    def __init__(self, *arguments: Any, device: torch.device, **named: Any) -> None:
        self._written = torch.zeros((), dtype=torch.int64, device=device)
        self._filled = torch.zeros((), dtype=torch.float64, device=device)  # as many transitions as there are
        named["device"] = device
        super().__init__(*arguments, **named)
        row = self.obs[:1].numel() * self.obs.element_size()
        word, bytes_ = ("unsigned int", 4) if row % 4 == 0 else ("unsigned char", 1)
        self._kernels, self._words, self._choices = program(word), row // bytes_, self.next_mask.shape[1]
        self._scales = torch.tensor([self.gamma**k for k in range(self.n_step + 1)], device=self.device)
        self._envs = torch.arange(self.num_envs, device=self.device)

    @property
    def written(self) -> int:
        """Rows ever written; asking waits for the device."""
        return int(self._written)

    @written.setter
    def written(self, rows: int) -> None:
        self._written.fill_(rows)
        self._filled.fill_(min(rows, self.rows) * self.num_envs)

    def add(self, step: VectorStep) -> None:
        self._write(step)
        if self.tree is not None:
            self.tree.set(self._written % self.rows * self.num_envs + self._envs, self.tree.top)
        self._kernels.run("advance", 1, self._written, self._filled, self.num_envs, self.rows)

    def _write(self, step: VectorStep) -> None:
        step = VectorStep(*(None if part is None else part.contiguous() for part in step))  # type: ignore[arg-type]
        place, sizes, run = (
            (self._written, self.num_envs, self.rows, self.n_step),
            (self._words, self._choices),
            self._kernels.run,
        )
        seen = (self.obs, self.next_obs, self.next_mask, self.open, step.obs, step.next_obs, step.next_mask)
        run("store_seen", self.num_envs * self._words, *seen, *place, *sizes)
        numbers = (self.action, self.reward, self.discount, self.open, step.action, step.reward)
        run("store_numbers", self.num_envs, *numbers, step.terminated, step.truncated, self._scales, *place)

    def sample(self, batch: int, generator: torch.Generator, beta: float | Tensor = 0.0) -> Batch:
        if self.tree is not None:
            return super().sample(batch, generator, beta)
        draw = torch.rand(batch, dtype=torch.float64, generator=generator, device=self.device)
        return self._gather(torch.empty(batch, dtype=torch.int64, device=self.device), None, draw)

    def _gather(self, index: Tensor, weight: Tensor | None, draw: Tensor | None = None) -> Batch:
        fields = (self.obs, self.next_obs, self.next_mask, self.action, self.reward, self.discount)
        parts = [field.new_empty(len(index), *field.shape[1:]) for field in fields]
        sizes = (len(index), self._words, self._choices)
        self._kernels.run("gather", len(index) * self._words, *fields, draw, self._filled, index, *parts, *sizes)
        obs, next_obs, next_mask, action, reward, discount = parts
        return Batch(obs, action, reward, discount, next_obs, index, weight, next_mask if self._choices else None)

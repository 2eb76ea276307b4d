"""Memories of recurrent policies: LSTM or GRU cells, and attention over past observations."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from hotlap.train import lstm_sequence
from hotlap.train.lstm_sequence import LstmSequence

Memory = tuple[Tensor, ...]  # of an agent; a row per environment, zeros at the beginning of an episode


class Cell(nn.Module):
    """A memory of LSTM or GRU cells."""

    def __init__(self, kind: str, units: int) -> None:
        super().__init__()
        self.cell = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}[kind](units, units)
        self.unrolled = LstmSequence() if kind == "lstm" else None

    def initial(self, batch: int) -> Memory:
        zeros = torch.zeros(batch, self.cell.hidden_size, device=self.cell.weight_hh.device)
        return (zeros, zeros.clone()) if isinstance(self.cell, nn.LSTMCell) else (zeros,)

    def forward(self, features: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """One step: features [batch, units]."""
        if self.unrolled is not None and not torch.is_grad_enabled() and lstm_sequence.usable(features):
            memory = self.unrolled.step(self.cell, features, memory)
            return memory[0], memory
        state = self.cell(features, memory if len(memory) == 2 else memory[0])
        memory = state if isinstance(state, tuple) else (state,)
        return memory[0], memory

    def sequence(self, features: Tensor, done: Tensor, memory: Memory) -> Tensor:
        """Many steps: features [time, batch, units], the memory cleared after steps that ended an episode."""
        if self.unrolled is not None and lstm_sequence.usable(features):
            unrolled: Tensor = self.unrolled(self.cell, features, done, memory)
            return unrolled
        alive = (1.0 - done)[..., None]
        outputs = []
        for t, now in enumerate(features):
            output, memory = self(now, memory)
            memory = tuple(part * alive[t] for part in memory)
            outputs.append(output)
        return torch.stack(outputs)


class Stack(nn.Module):
    """Several layers of cells; each takes what the one before it gave."""

    def __init__(self, kind: str, units: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Cell(kind, units) for _ in range(layers))

    def initial(self, batch: int) -> Memory:
        return tuple(part for cell, _ in self._parts(()) for part in cell.initial(batch))

    def forward(self, features: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """One step: features [batch, units]."""
        new: Memory = ()
        for cell, own in self._parts(memory):
            features, own = cell(features, own)
            new += own
        return features, new

    def sequence(self, features: Tensor, done: Tensor, memory: Memory) -> Tensor:
        """Many steps: features [time, batch, units], layer after layer."""
        for cell, own in self._parts(memory):
            features = cell.sequence(features, done, own)
        return features

    def _parts(self, memory: Memory) -> Iterator[tuple[Cell, Memory]]:
        """Each layer with its part of the memory."""
        size = len(memory) // len(self.layers)
        for number, cell in enumerate(self.layers):
            assert isinstance(cell, Cell)
            yield cell, memory[number * size : (number + 1) * size]


class Attention(nn.Module):
    """A memory by attention: the present attends to the agent's last `context` observations of this episode.

    The memory holds the features of the past and whether each is there.
    """

    def __init__(self, units: int, context: int, heads: int = 4) -> None:
        super().__init__()
        self.context, self.units, self.heads = context, units, heads if units % heads == 0 else 1
        self.project = nn.Linear(units, 3 * units)
        self.out = nn.Linear(units, units)
        self.distance = nn.Parameter(torch.zeros(self.heads, context))

    def initial(self, batch: int) -> Memory:
        device = self.out.weight.device
        past = torch.zeros(batch, self.context - 1, self.units, device=device)
        return past, torch.zeros(batch, self.context - 1, device=device)

    def forward(self, features: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """One step: features [batch, units]."""
        past, there = memory
        output = self.sequence(features[None], torch.zeros(1, len(features), device=features.device), memory)[0]
        past = torch.cat((past, features[:, None]), 1)[:, 1:]
        return output, (past, torch.cat((there, torch.ones_like(there[:, :1])), 1)[:, 1:])

    def sequence(self, features: Tensor, done: Tensor, memory: Memory) -> Tensor:
        """Many steps at once: features [time, batch, units]."""
        steps, batch, _ = features.shape
        past, there = memory
        seen = torch.cat((past.transpose(0, 1), features))
        query, key, value = self.project(seen).view(len(seen), batch, 3, self.heads, -1).unbind(2)
        key, value = (part.unfold(0, self.context, 1) for part in (key, value))  # [time, batch, heads, width, context]
        score = torch.einsum("tbhd,tbhdk->tbhk", query[self.context - 1 :], key) * key.shape[3] ** -0.5 + self.distance
        # Of the same episode: as many ends before it as before the present.
        ends = done.cumsum(0)
        before = torch.cat((torch.zeros_like(done[:1]), ends[:-1]))
        episode = torch.cat((torch.where(there > 0, 0.0, -1.0).t(), before)).unfold(0, self.context, 1)
        score = score.masked_fill((episode != before[..., None])[:, :, None], -torch.inf)
        attended = torch.einsum("tbhk,tbhdk->tbhd", score.softmax(-1), value).reshape(steps, batch, -1)
        return torch.tanh(features + self.out(attended))


def cleared(memory: Memory, done: Tensor) -> Memory:
    """The memory, reset to zero in rows whose episode is done."""
    return tuple(part * (1.0 - done).view(-1, *[1] * (part.ndim - 1)) for part in memory)

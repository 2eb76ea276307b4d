"""The networks of Hearts: attention over a seat's last observations, as in the original report (`--net attn-128x2` ...).

    [observation, 16 numbers of the seat] -> linear layer -> + sinusoidal positions -> encoder of a transformer
    -> attention with one learned query -> layer norm -> heads of the policy and of the value

They take rows of the environment with `history` observations. Their first layer sums rows of its weights (`train/sparse`). An
observation that a seat has not had yet is masked out. Dropout is for learning alone: acting is in evaluation mode.
"""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from hotlap.envs.hearts.information import SIZE, size_of
from hotlap.envs.hearts.rules import NUM_SEATS
from hotlap.envs.spec import EnvSpec
from hotlap.train.memory import Memory
from hotlap.train.nets import Features, Policy, mlp
from hotlap.train.sparse import SparseLinear

HISTORY = 5
PLAYER = 16  # numbers that stand for a seat
DROPOUT = 0.1


class Dropout(nn.Dropout):
    """On a CPU from 16 random bits for each number: torch takes longer to draw a number's fate there than to compute it."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or x.is_cuda:
            return super().forward(x)
        bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device).random_(-(2**63), None)
        kept = bits.view(torch.int16)[: x.numel()].view(x.shape) >= round(2**16 * self.p) - 2**15
        return x * kept.to(x.dtype).mul_(1 / (1 - self.p))


class InputProjection(nn.Module):
    """A linear layer of an observation and the numbers of the seat, the same for every position: [B, positions, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.observation = SparseLinear(SIZE, width, positions=HISTORY)
        self.player = nn.Linear(PLAYER, width, bias=False)

    def forward(self, rows: Tensor, player: Tensor) -> Tensor:
        projected: Tensor = self.observation(rows) + self.player(player)[:, None]
        return projected


class Positions(nn.Module):
    """Adds sines and cosines of the position, of falling frequency."""

    waves: Tensor

    def __init__(self, width: int, positions: int) -> None:
        super().__init__()
        angle = torch.arange(positions)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
        self.register_buffer("waves", torch.stack((angle.sin(), angle.cos()), -1).flatten(1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.waves


class Attend(nn.Module):
    """Scaled dot-product attention of several heads, [B, positions, width]."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads, self.dropout = heads, Dropout(DROPOUT)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, missing: Tensor) -> Tensor:
        """`missing` is -inf where there is nothing to attend to, else 0: [B, 1, 1, positions]."""
        query, key, value = (part.view(*part.shape[:2], self.heads, -1).transpose(1, 2) for part in (query, key, value))
        score = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2) + missing
        attended: Tensor = self.dropout(score.softmax(-1)) @ value
        return attended.transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """Every position attends to all that are there."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attend = Attend(heads)
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, missing: Tensor) -> Tensor:
        query, key, value = self.project(x).chunk(3, -1)
        return self.out(self.attend(query, key, value, missing))  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    """As `nn.TransformerEncoderLayer`, with fewer operations."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.widen, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.dropout = Dropout(DROPOUT)

    def forward(self, x: Tensor, missing: Tensor) -> Tensor:
        x = self.first_norm(x + self.dropout(self.attention(x, missing)))
        hidden = self.dropout(self.widen(x).relu())
        return self.second_norm(x + self.dropout(self.narrow(hidden)))  # type: ignore[no-any-return]


class Encoder(nn.Module):
    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(width, heads) for _ in range(layers))

    def forward(self, x: Tensor, missing: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, missing)
        return x


class Pooling(nn.Module):
    """Attention of one learned query over all positions: [B, width]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attend = Attend(heads)
        self.query = nn.Parameter(torch.randn(width) * 0.02)
        self.project_query = nn.Linear(width, width)
        self.project = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, missing: Tensor) -> Tensor:
        query = self.project_query(self.query).expand(len(x), 1, -1)
        key, value = self.project(x).chunk(2, -1)
        return self.out(self.attend(query, key, value, missing)[:, 0])  # type: ignore[no-any-return]


class AttentionPolicy(Policy):
    """Rows of `history` observations to the logits of 52 cards and to values."""

    def __init__(self, outputs: int, width: int, heads: int, layers: int) -> None:
        nn.Module.__init__(self)  # none of the layers of dense policies
        self.memory, self.units = None, width
        self.player = nn.Embedding(NUM_SEATS, PLAYER)
        self.input_projection = InputProjection(width)
        self.positional_encoding = Positions(width, HISTORY)
        self.encoder = Encoder(width, heads, layers)  # type: ignore[assignment]
        self.pooling = Pooling(width, heads)
        self.norm = nn.LayerNorm(width)
        self.policy_head = mlp((width, width, outputs))
        self.value_head = mlp((width, 2 * width, width, 1))
        for head in (self.policy_head, self.value_head):
            nn.init.orthogonal_(head.get_parameter(f"{len(head) - 1}.weight"), 0.01)

    def step_features(self, obs: Tensor, memory: Memory = ()) -> tuple[Features, Memory]:
        seat = obs.gather(1, obs[:, :1].long())[:, 0].int() - HISTORY * SIZE  # the last one of each row
        missing = torch.arange(HISTORY, device=obs.device) < obs[:, 1:2] // SIZE  # before the first observation
        mask = torch.zeros(missing.shape, device=obs.device).masked_fill_(missing, -torch.inf)[:, None, None]
        x = self.positional_encoding(self.input_projection(obs, self.player(seat)))
        x = self.norm(self.pooling(self.encoder(x, mask), mask))
        return Features(x, x), ()

    def heads(self, features: Features) -> tuple[Tensor, Tensor]:
        return self.policy_head(features.actor).float(), self.value_head(features.critic)[:, 0].float()


def attention_policy(
    config: Any, spec: EnvSpec, outputs: int, deviations: int, *, width: int, heads: int, layers: int
) -> Policy:
    if spec.obs_size != size_of(HISTORY):
        raise ValueError(f"attention networks take sparse observations with a history of {HISTORY}")
    return AttentionPolicy(outputs, width, heads, layers)


attn_128x2 = partial(attention_policy, width=128, heads=4, layers=2)
attn_64x1 = partial(attention_policy, width=64, heads=2, layers=1)
attn_32x1 = partial(attention_policy, width=32, heads=2, layers=1)

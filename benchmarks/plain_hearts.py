"""The attention network of Hearts as one would first write it: torch's own modules on dense observations.

What `hotlap.systems.hearts_net` must equal, and what its update is compared with (`hearts_update.py`).
"""

import math

import torch
from torch import Tensor, nn

SIZE, SEATS, HISTORY = 5088, 4, 5


class PlainPolicy(nn.Module):
    """Rows [B, 5 x 5,088 + 4] of the environment to logits [B, 52] and values [B]."""

    waves: Tensor

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.player = nn.Embedding(SEATS, 16)
        self.input_projection = nn.Linear(SIZE + 16, width)
        angle = torch.arange(HISTORY)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
        waves = torch.zeros(HISTORY, width)
        waves[:, 0::2], waves[:, 1::2] = angle.sin(), angle.cos()
        self.register_buffer("waves", waves)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.query = nn.Parameter(torch.zeros(width))
        self.pooling = nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.policy_head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 52))
        self.value_head = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1)
        )

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        seen, seat = obs[:, :-SEATS].view(len(obs), HISTORY, SIZE), obs[:, -SEATS:].argmax(1)
        missing = seen.sum(2) == 0
        player = self.player(seat)[:, None].expand(-1, HISTORY, -1)
        x = self.input_projection(torch.cat((seen, player), 2)) + self.waves
        x = self.encoder(x, src_key_padding_mask=missing)
        query = self.query.expand(len(x), 1, -1)
        x = self.norm(self.pooling(query, x, x, key_padding_mask=missing, need_weights=False)[0][:, 0])
        return self.policy_head(x), self.value_head(x)[:, 0]

    def load(self, shipped: nn.Module) -> None:
        """Take the parameters of hotlap's network."""
        with torch.no_grad():
            for mine, theirs in self.pairs(dict(shipped.named_parameters())):
                mine.copy_(theirs)

    def pairs(self, theirs: dict[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
        """The parameters (or the gradients) of hotlap's network beside one's own, in their shapes."""
        projection, pooling = "input_projection.", "pooling."
        weight = torch.cat((theirs[f"{projection}observation.weight"].t(), theirs[f"{projection}player.weight"]), 1)
        query_key_value = [
            torch.cat((theirs[f"{pooling}project_query.{kind}"], theirs[f"{pooling}project.{kind}"]))
            for kind in ("weight", "bias")
        ]
        pairs = [
            (self.player.weight, theirs["player.weight"]),
            (self.input_projection.weight, weight),
            (self.input_projection.bias, theirs[f"{projection}observation.bias"]),
            (self.query, theirs[f"{pooling}query"]),
            (self.pooling.in_proj_weight, query_key_value[0]),
            (self.pooling.in_proj_bias, query_key_value[1]),
            (self.pooling.out_proj.weight, theirs[f"{pooling}out.weight"]),
            (self.pooling.out_proj.bias, theirs[f"{pooling}out.bias"]),
        ]
        names = {
            "self_attn.in_proj_": "attention.project.",
            "self_attn.out_proj.": "attention.out.",
            "linear1.": "widen.",
            "linear2.": "narrow.",
            "norm1.": "first_norm.",
            "norm2.": "second_norm.",
        }
        mine = dict(self.named_parameters())
        for number in range(len(self.encoder.layers)):
            for own, other in names.items():
                for kind in ("weight", "bias"):
                    pair = mine[f"encoder.layers.{number}.{own}{kind}"], theirs[f"encoder.layers.{number}.{other}{kind}"]
                    pairs.append(pair)
        pairs += [(p, theirs[name]) for name, p in mine.items() if name.startswith(("norm.", "policy_head.", "value_head."))]
        return pairs

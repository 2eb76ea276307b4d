"""A network of Connect Four's own, `--net lines`: dense layers that also see where a fourth stone would win."""

from typing import Any

import torch
from torch import Tensor

from hotlap.envs.connect4.board import COLUMNS, LENGTH, LINES, ROWS
from hotlap.envs.spec import EnvSpec
from hotlap.train.encoders import Encoder
from hotlap.train.nets import Policy, policy_of

CELLS = ROWS * COLUMNS


class Lines(Encoder):
    """Boards [batch, rows, columns, 2] as stones, threats and moves; nothing here is learned.

    For each cell: own stone, the other's stone, whether a stone there would complete a line of four for oneself, and for the
    other. For each column: whether the stone dropped there now wins, and whether it prevents that the other wins there.
    """

    features = 4 * CELLS + 2 * COLUMNS
    incidence: Tensor

    def __init__(self) -> None:
        super().__init__()
        incidence = torch.zeros(CELLS, len(LINES))  # which cells a line has
        for number, line in enumerate(LINES):
            for row, column in line:
                incidence[row * COLUMNS + column, number] = 1.0
        self.register_buffer("incidence", incidence, persistent=False)

    def forward(self, obs: Tensor) -> Tensor:
        cells = obs.flatten(1, 2).to(torch.float32)  # [batch, cells, 2]
        own, other = cells[..., 0], cells[..., 1]
        free = 1 - own - other
        below = torch.cat((1 - free[:, COLUMNS:], torch.ones_like(free[:, :COLUMNS])), 1)  # the floor, or a stone
        counts = torch.stack((own, other)) @ self.incidence  # [2, batch, lines]
        almost = ((counts == LENGTH - 1) & (counts.flip(0) == 0)).to(torch.float32)
        threats = ((almost @ self.incidence.t()) > 0).to(torch.float32) * free  # [2, batch, cells]
        moves = (threats * below).view(2, -1, ROWS, COLUMNS).sum(2)  # [2, batch, columns]
        return torch.cat((own, other, threats[0], threats[1], moves[0], moves[1]), 1)


def lines_policy(config: Any, spec: EnvSpec, outputs: int, deviations: int) -> Policy:
    return policy_of(config, Lines(), outputs, deviations)

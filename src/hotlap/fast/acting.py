"""One forward pass for all environments. Replaces a loop that asks the network for one environment's action at a time.

    choose = BatchedActor(net)
    actions = choose.greedy(observations)                 # [n, ...] -> int64 array [n]
    actions = choose.epsilon_greedy(observations, 0.1)
    actions, log_probs = choose.sample(observations)

Observations are an array [n, ...] or a list of n. They become one tensor on the network's device, the pass runs without
gradients, and the result is read back in one copy. Proven in tests/test_fast.py: the same actions as one call per environment;
`sample` draws from the same distribution (one draw of n numbers, not n draws of one).
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import torch
from torch import nn


class BatchedActor:
    """Actions of a network that gives logits or action values [n, actions] (if it gives a tuple, its first part)."""

    def __init__(self, net: nn.Module, seed: Optional[int] = None) -> None:  # noqa: UP045 - Python 3.9
        self.net = net
        self._parameter = next(net.parameters())
        self._random = np.random.default_rng(seed)

    def scores(self, observations: Any) -> Any:
        """Logits or values [n, actions], on the network's device."""
        if isinstance(observations, (list, tuple)):
            observations = np.stack([np.asarray(each) for each in observations])
        rows = torch.as_tensor(observations).to(self._parameter.device, self._parameter.dtype)
        with torch.no_grad():
            out = self.net(rows)
        return out[0] if isinstance(out, tuple) else out

    def greedy(self, observations: Any) -> Any:
        """The best actions [n]."""
        return self.scores(observations).argmax(-1).cpu().numpy()

    def epsilon_greedy(self, observations: Any, epsilon: float) -> np.ndarray:
        """The best actions [n], each replaced by a random one with probability `epsilon`."""
        scores = self.scores(observations)
        best = scores.argmax(-1).cpu().numpy()
        explore = self._random.random(len(best)) < epsilon
        return np.where(explore, self._random.integers(scores.shape[-1], size=len(best)), best)

    def sample(self, observations: Any) -> tuple[np.ndarray, np.ndarray]:
        """Actions [n] drawn from the softmax of the logits, by torch's generator, and their log-probabilities [n]."""
        log_probs = self.scores(observations).log_softmax(-1)
        actions = torch.multinomial(log_probs.exp(), 1)
        return actions[:, 0].cpu().numpy(), log_probs.gather(-1, actions)[:, 0].cpu().numpy()

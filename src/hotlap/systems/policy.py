"""A trained policy, for use outside hotlap: observation in, greedy action out, with no environment of hotlap's around it.

policy = hotlap.load_policy("latest")
observation, info = env.reset()
policy.reset()
while not over:
    action = policy.act(observation, info.get("action_mask"))
"""

from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotlap.core.errors import RecordError
from hotlap.core.text import one_line
from hotlap.envs.spec import EnvSpec
from hotlap.record.header import Verb
from hotlap.record.run import find
from hotlap.systems import load
from hotlap.systems.configs import check_device, config_from
from hotlap.train import checkpoint
from hotlap.train.actions import actions_of
from hotlap.train.greedy import GreedyPolicy
from hotlap.train.memory import Memory


class SavedPolicy(Protocol):
    """What `load_policy` gives. `spec` says what it takes and gives: shapes and types of observations and actions."""

    spec: EnvSpec

    def reset(self, rows: Any = None) -> None: ...

    def act(self, observation: Any, mask: Any = None) -> Any: ...


class LoadedPolicy:
    """The greedy policy of a checkpoint, with the memory that it needs: call `reset` where an episode begins.

    `spec` says what it takes and gives: shapes and types of observations and actions.
    """

    def __init__(self, greedy: GreedyPolicy, spec: EnvSpec, device: str) -> None:
        self.spec = spec
        self._greedy, self._actions = greedy, actions_of(spec)
        self._device = torch.device(device)
        self._memory: Memory = ()
        self._rows = 0  # of the batch that the memory is of; 0: none yet

    def reset(self, rows: Any = None) -> None:
        """Forget what was seen; with `rows` (booleans) only in those rows of a batch, whose episodes begin anew."""
        if rows is None:
            self._memory, self._rows = (), 0
            return
        begun = np.asarray(rows, bool)
        if self._rows and begun.shape != (self._rows,):
            raise ValueError(f"rows must be {self._rows} booleans, not of shape {begun.shape}")
        for part in self._memory:
            part[torch.from_numpy(begun).to(part.device)] = 0.0

    def act(self, observation: Any, mask: Any = None) -> Any:
        """The best action for one observation, or an array of actions for a batch of them.

        `mask` says which discrete actions are legal. One discrete action is an `int`; others are arrays, continuous ones
        clipped to their bounds.
        """
        seen = np.asarray(observation, self.spec.obs_dtype)
        single = seen.shape == self.spec.obs_shape
        if single:
            seen = seen[None]
        if seen.shape[1:] != self.spec.obs_shape or not len(seen):
            shape = self.spec.obs_shape
            raise ValueError(f"an observation has the shape {shape}, a batch (rows, *{shape}); not {np.shape(observation)}")
        legal = None if mask is None else self._legal(np.asarray(mask, bool), len(seen))
        if self._rows not in (0, len(seen)):
            raise ValueError(f"this policy remembers {self._rows} rows, not {len(seen)}: call reset() before another batch")
        chosen, memory = self._greedy(torch.from_numpy(np.ascontiguousarray(seen)).to(self._device), legal, self._memory)
        if memory:
            self._memory, self._rows = tuple(part.clone() for part in memory), len(seen)
        actions = self._actions.to_env(chosen)
        if not single:
            return actions
        return int(actions[0]) if self.spec.action_sizes and not self.spec.action_shape else actions[0]

    def _legal(self, mask: NDArray[np.bool_], rows: int) -> Tensor:
        if not self.spec.action_sizes:
            raise ValueError("continuous actions have no mask")
        if mask.size != rows * self.spec.choices:
            raise ValueError(f"a mask has {self.spec.choices} booleans per observation; not the shape {mask.shape}")
        legal = mask.reshape(rows, self.spec.choices)
        return torch.from_numpy(np.ascontiguousarray(legal)).to(self._device)


def load_policy(path: str | Path, device: str = "cpu") -> SavedPolicy:
    """The policy of a training run. `path` is its folder, its id, "latest", or a checkpoint file.

    A system may adapt it to its environment as others have it (`RLSystem.outside`).
    """
    saved = checkpoint.load_file(Path(path)) if Path(path).is_file() else checkpoint.load(find(str(path), (Verb.TRAIN,)))
    source = saved.source
    check_device(device)
    system = load(source.system, source.algorithm)
    try:
        config = replace(config_from(system, source.config), device=device)
        greedy = system.trainer.load_policy(config, source.spec, system.net_makers(), saved.arrays)
    except (TypeError, ValueError, LookupError, RuntimeError) as error:  # of another version: other fields, another network
        reason = f"it was made by hotlap {saved.version}: {one_line(str(error))}"
        raise RecordError(f"{saved.path} has no policy that can be loaded: {reason}") from error
    loaded = LoadedPolicy(greedy, source.spec, device)
    if not system.outside:
        return loaded
    adapted: SavedPolicy = resolve_name(system.outside)(loaded, config)
    return adapted

"""A saved policy of the CAGE2 system beside any simulator of the challenge, such as CybORG.

    policy = hotlap.load_policy("latest")
    policy.reset()                       # an episode begins
    action = policy.act(bits)            # from BlueTableWrapper's 52 bits: 0 to 144, as ChallengeWrapper numbers actions

What a policy was trained to see besides (scan inputs, the history of the episode) follows from the bits and from its own
actions, and is kept here. A smaller set of actions is translated to the challenge's 145.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.cage2.actions import ALL, SETS, Command, Translator
from hotlap.envs.cage2.history import SCAN, TABLE, History, activity_in
from hotlap.envs.cage2.scenario import NUM_HOSTS
from hotlap.envs.cage2.view import SCAN_INPUTS
from hotlap.envs.spec import EnvSpec
from hotlap.systems.policy import LoadedPolicy


class Defender:
    """Batches of rows, or one environment, as `LoadedPolicy` has it; `spec` is the challenge's."""

    def __init__(self, policy: LoadedPolicy, config: Any) -> None:
        self.spec = EnvSpec.dense((TABLE,), 0, 1, "|u1", actions=len(ALL))
        self._policy, self._observation, self._actions = policy, config.observation, config.actions
        self._episodes: list[_Episode] = []

    def reset(self, rows: Any = None) -> None:
        """Episodes begin: of all rows, or of those of a batch that `rows` (booleans) says."""
        self._policy.reset(rows)
        if rows is None:
            self._episodes = []
            return
        for row in np.flatnonzero(np.asarray(rows, bool)) if self._episodes else ():
            self._episodes[row] = _Episode(self._actions)

    def act(self, observation: Any, mask: Any = None) -> Any:
        """The best of the 145 actions for 52 bits; for a batch [rows, 52], an array of them. There are no masks."""
        bits = np.asarray(observation, np.uint8)
        one = bits.shape == (TABLE,)
        if one:
            bits = bits[None]
        if bits.shape[1:] != (TABLE,) or not len(bits):
            raise ValueError(f"an observation has {TABLE} bits, a batch the shape (rows, {TABLE}); not {np.shape(observation)}")
        if mask is not None:
            raise ValueError("all actions are legal at all times: leave the mask out")
        self._episodes = self._episodes or [_Episode(self._actions) for _ in bits]
        if len(self._episodes) != len(bits):
            raise ValueError(f"this policy remembers {len(self._episodes)} rows, not {len(bits)}: call reset() first")
        rows = zip(self._episodes, bits, strict=True)
        chosen: NDArray[np.int64] = self._policy.act([episode.see(row, self._observation) for episode, row in rows])
        actions = [episode.choose(int(action)) for episode, action in zip(self._episodes, chosen, strict=True)]
        return actions[0] if one else np.array(actions, np.int64)


class _Episode:
    """What one environment's policy has seen and done."""

    def __init__(self, actions: str) -> None:
        self._commands, self._translator = SETS[actions], Translator(actions)
        self._history = History()
        self._scans = [0] * NUM_HOSTS
        self._last: Command | None = None

    def see(self, table: NDArray[np.uint8], observation: str) -> list[int]:
        """What the policy was trained to see, from the 52 bits."""
        bits = table.tolist()
        if self._last is not None:
            self._history.update(self._last, bits)
        host, activity = activity_in(bits)
        if activity == SCAN and host in SCAN_INPUTS:
            self._scans = [min(seen, 1) for seen in self._scans]
            self._scans[host] = 2
        if observation == "history":
            return [*bits, *self._history.features()]
        return [*bits, *(self._scans[h] for h in SCAN_INPUTS)] if observation == "scans" else bits

    def choose(self, action: int) -> int:
        """Note an action of the policy's set; its number among the 145."""
        self._last = self._commands[action]
        return self._translator.translate(action)

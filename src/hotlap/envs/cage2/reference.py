"""CAGE Challenge 2 in plain Python: the specification that `kernel.h` must equal bit for bit.

The rules are those of CybORG 2.1's Scenario2, which the tests hold this file to, step by step, with recordings of it. Costs are
whole tenths, so nothing is rounded but the reward itself.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hotlap.envs.cage2 import drawing, history, options, tables, truth
from hotlap.envs.cage2.actions import SETS
from hotlap.envs.cage2.chance import Chance, Recorded
from hotlap.envs.cage2.network import Attacker, Knowledge, Network
from hotlap.envs.cage2.red import AGENTS, Red
from hotlap.envs.cage2.scenario import (
    DOWN_COST,
    HOSTS,
    NUM_HOSTS,
    RESTORE_COST,
    Attack,
    BlueKind,
    Outcome,
    RedAgent,
    Success,
)
from hotlap.envs.cage2.tables import SETTINGS, Settings
from hotlap.envs.cage2.view import SCAN_INPUTS, BlueView
from hotlap.envs.picture import Picture, plain
from hotlap.envs.rng import Rng
from hotlap.envs.spec import EnvSpec
from hotlap.envs.start import RANDOM, Start

METRICS = ("red", "down", "restores")
OBSERVATIONS = {  # length, lowest, highest, type
    "table": (4 * NUM_HOSTS, 0, 1, "|u1"),
    "scans": (4 * NUM_HOSTS + len(SCAN_INPUTS), 0, 2, "|u1"),
    "history": (history.SIZE, 0, 1, "|u1"),
    "truth": (truth.SIZE, truth.LOWEST, truth.HIGHEST, "<i4"),
}


class Cage2(gymnasium.Env[NDArray[Any], int]):
    """Blue defends a network of 13 hosts against a red agent; Green sleeps.

    **Hosts**: 0 Defender, 1-3 Enterprise0-2, 4-6 Op_Host0-2, 7 Op_Server0, 8-12 User0-4; see `scenario.py`.

    **A step**: Blue acts; Red decides by what it saw at the end of the step before, and acts; costs are counted; Blue sees the
    connections that Red made. `network.py` has what actions do, `red.py` how Red decides, `view.py` what Blue sees.

    **Actions**: Sleep, Monitor, and for each host Analyse, Remove, Restore and eight decoys. `actions="all"` are the 145 of the
    challenge; `distinct` and `merged` are smaller sets, see `actions.py`.

    **Observation**: `observation="table"`, 52 bits, four for each host: activity in this step (00 none, 10 scan, 11 exploit),
    compromise (00 no, 10 unknown, 01 user, 11 privileged). `scans` adds ten numbers, for all hosts but Op_Host0-2: 2 for the
    last that showed a scan, 1 for those that did before. `history` adds what Blue can remember, see `history.py`.
    `truth` is the whole true state, see `truth.py`.

    **Reward**, with a privileged red session: -0.1 for each of User1-4, Op_Host0-2 and Defender, -1 for each of Enterprise0-2
    and Op_Server0; -10 while the OT service does not run; -1 for a Restore.

    **Red**: `red="b_line"`, `meander` or `sleep`; several, joined by `+`, are drawn from at each start, all equally likely
    (`b_line+meander`); `mixed` are all three. Random numbers, in this order: the agent, if there are several; what it decides
    (B_line's User host, Meander's host); the exploit; the alert or the session to escalate: see `chance.py`.

    **Start**: Red on User0. `reset(options={"red": "meander", "episode_length": 30})` gives environments other settings, until
    the next options; what is not given is as the environment was made.

    **End**: truncated after `episode_length` steps (the challenge has 30, 50 and 100); nothing else depends on it.

    **Replay**: with `replay=True`, `reset(options={"outcomes": ...})` gives what chance decides instead: for each step the
    target, exploit, detection and escalated session of a recording, [episode_length, 4].

    **Metrics**: `red` (0 sleep, 1 b_line, 2 meander), `down` (steps without OT service), `restores`.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 3}
    kernel = Path(__file__).with_name("kernel.h")

    network: Network
    knowledge: Knowledge
    red: Red
    view: BlueView
    history: history.History
    attack: Attack  # Red's last
    outcome: Outcome  # of that
    blue_action: int | None
    blue_success: Success
    entries: list[int]  # that each host had in Blue's observation of the last step
    steps: int
    cost: int  # tenths, of the last step
    down: int
    restores: int

    def __init__(
        self,
        red: str = "b_line",
        episode_length: int = 100,
        observation: str = "table",
        actions: str = "all",
        replay: bool = False,
        render_mode: str | None = None,
    ) -> None:
        options.check_choice("observation", observation, OBSERVATIONS)
        options.check_choice("actions", actions, SETS)
        self.default_settings = Settings(options.check_length(episode_length), options.parse_red(red))
        self.observation, self.replay, self.render_mode = observation, bool(replay), render_mode
        self.commands = SETS[actions]
        length, low, high, dtype = OBSERVATIONS[observation]
        declared = tables.declared(self.commands, episode_length if replay else 0)
        self.env_spec = EnvSpec.dense((length,), low, high, dtype, actions=len(self.commands), metrics=METRICS, tables=declared)
        self.observation_space, self.action_space = self.env_spec.observation_space, self.env_spec.action_space
        self.rng = Rng.unseeded()
        self.settings = self.default_settings
        self.outcomes = options.no_outcomes(episode_length)
        self._start()

    @property
    def defines(self) -> dict[str, int | float]:
        """What the kernel must know about this game, as C macros."""
        kinds = {f"SHOW_{name.upper()}": int(self.observation == name) for name in OBSERVATIONS}
        return {**tables.constants(), **kinds, "REPLAY": int(self.replay)}

    def tables(self) -> dict[str, NDArray[Any]]:
        """What the kernel reads at run time."""
        return {**tables.scenario(self.commands), **self.encode_start({}).tables}

    # -- episode --

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.rng = Rng(seed)
        start = self.encode_start(options) if options else RANDOM
        if "settings" in start.tables:
            self.settings = Settings.read(start.tables["settings"])
        self.outcomes = start.tables.get("outcomes", self.outcomes)
        self._start()
        return self.observe(), {}

    def step(self, action: int) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"cage2: action must be a whole number from 0 to {len(self.commands) - 1}, not {action!r}")
        chance = Chance(self.rng, Recorded(*self.outcomes[self.steps].tolist()) if self.replay else None)
        self.blue_action = int(action)
        found_files = self._defend()
        self.attack = self.red.decide(self.attack, self.outcome.success, self.knowledge, chance)
        self.outcome = Attacker(self.network, self.knowledge, chance).carry_out(self.attack)
        self._look(found_files)
        self._count_costs()
        self.steps += 1
        if self.observation == "history":
            self.history.update(self.commands[self.blue_action], self.view.table())
        reward = float(np.float32(-self.cost) / np.float32(10))
        return self.observe(), reward, False, self.steps >= self.settings.episode_length, {}

    def metrics(self) -> tuple[float, ...]:
        return float(self.red.number), float(self.down), float(self.restores)

    # -- rules --

    def _start(self) -> None:
        reds = self.settings.reds
        self._begin(reds[self.rng.below(len(reds))] if len(reds) > 1 else reds[0])

    def _begin(self, agent: RedAgent) -> None:
        self.network, self.knowledge, self.view, self.history = Network(), Knowledge(), BlueView(), history.History()
        self.red = AGENTS[agent]()
        self.attack, self.outcome = Attack(), Outcome()
        self.blue_action, self.blue_success = None, Success.UNKNOWN
        self.entries = [0] * NUM_HOSTS
        self.steps = self.cost = self.down = self.restores = 0

    def _defend(self) -> bool:
        """Carry out Blue's action; whether it found Red's files."""
        command = self.commands[self.blue_action or 0]
        self.blue_success = Success.YES
        match command.kind:
            case BlueKind.SLEEP:
                self.blue_success = Success.UNKNOWN
            case BlueKind.ANALYSE:
                return self.network.hosts[command.host].files > 0
            case BlueKind.REMOVE:
                self.network.remove(command.host)
            case BlueKind.RESTORE:
                self.network.restore(command.host)
            case BlueKind.DECOY:
                placed = any(self.network.place(decoy, command.host) for decoy in command.decoys)
                self.blue_success = Success.YES if placed else Success.NO
        return False

    def _look(self, found_files: bool) -> None:
        """What Blue sees, of Red's attack too."""
        command, events = self.commands[self.blue_action or 0], self.outcome.events
        placed = command.kind is BlueKind.DECOY and self.blue_success is Success.YES
        self.entries = [0] * NUM_HOSTS
        if placed:
            self.entries[command.host] += 1
        if events:
            self.entries[self.attack.target] += len(events)
        self.view.update(command.kind, command.host, placed, found_files, self.attack.target, events)

    def _count_costs(self) -> None:
        restored = self.commands[self.blue_action or 0].kind is BlueKind.RESTORE
        self.cost = sum(host.cost for h, host in enumerate(HOSTS) if self.network.privileged(h))
        self.cost += DOWN_COST * (not self.network.ot_running) + RESTORE_COST * restored
        self.down += not self.network.ot_running
        self.restores += restored

    def observe(self) -> NDArray[Any]:
        if self.observation == "truth":
            return np.array(truth.encode(self), np.int32)
        more: dict[str, Callable[[], list[int]]] = {"scans": self.view.scan_inputs, "history": self.history.features}
        return np.array(self.view.table() + (more[self.observation]() if self.observation in more else []), np.uint8)

    # -- for people --

    def draw(self) -> Picture:
        """The hosts by subnet, and what both sides did."""
        return drawing.draw(self)

    def render(self) -> str:
        return plain(self.draw())

    def describe_action(self, action: int) -> str:
        return str(self.commands[action])

    # -- saving and fixing the state --

    def encode_start(self, given: Mapping[str, Any]) -> Start:
        """Check a start: settings, and the outcomes to replay."""
        chosen: dict[str, NDArray[Any]] = {"settings": options.read_settings(given, self.default_settings, self.replay).table()}
        if self.replay:
            chosen["outcomes"] = options.read_outcomes(given, self.default_settings.episode_length)
        return Start(tables=chosen)

    def pack(self) -> NDArray[np.uint64]:
        """The whole state as numbers, for checkpoints: `unpack` restores it exactly."""
        action = -1 if self.blue_action is None else self.blue_action
        own = [self.red.number, self.steps, self.cost, self.down, self.restores, action, *self.view.scans]
        given = [*self.settings.table().tolist(), *(self.outcomes.ravel().tolist() if self.replay else [])]
        numbers = np.array([*own, *self.history.encode(), *truth.encode(self), *given], np.int64).view(np.uint64)
        return np.concatenate([np.array([self.rng.key, self.rng.counter], np.uint64), numbers])

    def unpack(self, state: NDArray[np.uint64]) -> None:
        self.rng.key, self.rng.counter = (int(number) for number in state[:2])
        numbers = np.ascontiguousarray(state[2:]).view(np.int64)
        own, remembered, now, given = np.split(numbers, np.cumsum([6 + NUM_HOSTS, history.ENCODED, truth.SIZE]))
        self._begin(RedAgent(int(own[0])))
        truth.decode(self, now.tolist())
        self.steps, self.cost, self.down, self.restores, action = own[1:6].tolist()
        self.blue_action = None if action < 0 else action
        self.view.scans = own[6:].tolist()
        self.history = history.History.decode(remembered.tolist(), self.network)
        self.settings = Settings.read(given[:SETTINGS])
        if self.replay:
            self.outcomes = given[SETTINGS:].astype(np.int16).reshape(self.outcomes.shape)

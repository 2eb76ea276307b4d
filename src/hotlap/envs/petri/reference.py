"""Any timed Petri net as an environment, in plain Python: the specification that `kernel.h` must equal bit for bit.

All times are whole seconds, so the only rounding is that of the reward, a sum of rates times seconds in a fixed order.
"""

from collections import deque
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hotlap.envs.petri.cluster import cluster_tool
from hotlap.envs.petri.drawing import picture
from hotlap.envs.petri.marking import describe
from hotlap.envs.petri.net import MAX_ARCS, MAX_NODES, MAX_TOKENS, Net
from hotlap.envs.petri.rewards import Rewards
from hotlap.envs.petri.start import FirstMarking, load_net, read_start
from hotlap.envs.petri.tables import ROLES, Rules, Sizes, count_scale, decode, encode
from hotlap.envs.petri.timed import TimedNet
from hotlap.envs.picture import Picture, plain
from hotlap.envs.spec import EnvSpec
from hotlap.envs.start import Start

FEATURES = ("tokens", "places")
PER_TOKEN, PER_PLACE, EXTRA = 5, 5, 2  # numbers in an observation
TIME_UNIT = 0.01  # times are observed in units of 100 s, from -10 to 10
FAR = 1_000  # seconds: longer times look like this
METRICS = ("makespan", "done", "finished", "scrapped")


class PetriNet(gymnasium.Env[NDArray[np.float32], int]):
    """A timed Petri net with identified tokens; by default the cluster tool with `wafers` wafers (cluster.py).

    **Net**: `net` is a Net (net.py) or the path of a PNML file (pnml.py); `pnml` is such a path too. A reset with
    `options={"net": ...}` gives an environment another net, no larger than `max_places`, `max_transitions`, `max_tokens` and
    `max_arcs` (by default those of `net`).

    **Actions**: one for each transition, and WAIT, the last. A transition may fire if the marking allows it (marking.py), no
    more than `token_limit` identified tokens exist afterwards, and the tokens that it takes, the first of each input place,
    have been there for the place's process time. Tokens move when it fires; then the clock runs for its duration, or for the
    net's `wait` after WAIT. WAIT is always legal.

    **Observation**, float32. Times are in units of 100 s, at most 10 (which also stands for "no limit").
    - `features="tokens"`: for each token, by id: id, place and role of the place, all numbered from 1 and divided by how many
      there are, how long it has been there, time until it is scrap (all 0 if there is no such token); then for each place its
      number of tokens / its capacity; then the time spent waiting / its limit and the time / `max_time`.
    - `features="places"`: for each place: tokens / capacity, whether its first token is ready, time until its first token is
      ready, until it is scrap, until its last token is ready; then the same two numbers.

    **Reward** (rewards.py), of the interval that a step takes: -1 per second; +2 per second and token processed in a chamber,
    -0.2 per second that it stays there longer; -3 per second and token in a transport place past 10 s; +10 per token that
    reaches a sink, +800 when all are there; -500 for scrap; -10 once after 300 s of waiting in a row; -100 at the time limit.

    **End**: terminated when all tokens are in sinks, or when a token has stayed longer than process time + residency; truncated
    at `max_time`. With `stop_when_dead`, terminated when nothing can fire any more, however long one waits.

    **Start**: the net's own marking. `reset(options={"marking": {"LP": 3, "s1": [70, 20], "TM2": 1, ...}})` fixes it: tokens by
    place, or how long each has been there, the longest first.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 10}
    kernel = Path(__file__).with_name("kernel.h")
    net: Net
    now: TimedNet
    waiting: int  # seconds, in a row

    def __init__(
        self,
        wafers: int | None = None,
        guards: bool = True,
        net: Net | str | Path | None = None,
        pnml: str | None = None,
        features: str = "tokens",
        rewards: Rewards | Mapping[str, Any] | None = None,
        max_time: int = 50_000,
        stop_when_dead: bool = False,
        max_places: int | None = None,
        max_transitions: int | None = None,
        max_tokens: int | None = None,
        max_arcs: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        given = {"wafers (of the cluster tool)": wafers, "net": net, "pnml": pnml}
        if len(ways := [name for name, value in given.items() if value is not None]) > 1:
            raise ValueError(f"petri: {' and '.join(ways)} name different nets; give one of them")
        net = pnml if net is None else net
        if features not in FEATURES:
            raise ValueError(f"petri: unknown features {features!r}; choose one of {', '.join(FEATURES)}")
        _whole("max_time", max_time, 1, 10**8)
        self.default_net = cluster_tool(12 if wafers is None else wafers, bool(guards)) if net is None else load_net(net)
        self.features = features
        self.rules = Rules(Rewards.of(rewards), max_time, bool(stop_when_dead))
        own = Sizes.of(self.default_net)
        self.sizes = Sizes(
            _whole("max_places", max_places, own.places, MAX_NODES, own.places),
            _whole("max_transitions", max_transitions, own.transitions, MAX_NODES, own.transitions),
            _whole("max_tokens", max_tokens, own.tokens, MAX_TOKENS, own.tokens),
            _whole("max_arcs", max_arcs, own.arcs, MAX_ARCS, own.arcs),
        )
        rows = self.sizes.tokens * PER_TOKEN + self.sizes.places if features == "tokens" else self.sizes.places * PER_PLACE
        self.env_spec = EnvSpec.dense(
            (rows + EXTRA,),
            -10,
            10,
            actions=self.sizes.transitions + 1,
            masked=True,
            metrics=METRICS,
            tables=self.sizes.tables(),
        )
        self.observation_space, self.action_space = self.env_spec.observation_space, self.env_spec.action_space
        self.render_mode = render_mode
        self._use(self.default_net)
        self._begin()

    @property
    def defines(self) -> dict[str, int | float]:
        """What the kernel must know about this game, as C macros."""
        sizes = {"PLACES": self.sizes.places, "TRANSITIONS": self.sizes.transitions, "TOKENS": self.sizes.tokens}
        roles = {role.name: number for number, role in enumerate(ROLES)}
        features = {"FEATURES_TOKENS": int(self.features == "tokens"), "TIME_UNIT": TIME_UNIT, "FAR": FAR}
        return {**sizes, "ARCS": self.sizes.arcs, **roles, **features}

    @property
    def wait_action(self) -> int:
        return self.sizes.transitions

    def tables(self) -> dict[str, NDArray[Any]]:
        return encode(self.default_net, self.rules, self.sizes)

    def _use(self, net: Net) -> None:
        self.net = net
        self._scales = [count_scale(net, number) for number in range(len(net.places))]

    # -- episode --

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        if options:
            net, first = read_start(options, self.default_net)
            self.sizes.check(net)
            self._use(net)
            self._begin(first)
        else:
            self._begin()
        return self.observe(), {"action_mask": self._mask}

    def _begin(self, first: FirstMarking | None = None) -> None:
        self.now = TimedNet(self.net, first)
        self.waiting = 0
        self._mask = self.mask()

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        action = int(action)
        if not 0 <= action <= self.wait_action or not self._mask[action]:
            raise ValueError(f"petri: {self.describe_action(action)} is illegal in {describe(self.net, self.now.counts)}")
        rewards, now, done_before, waiting_before = self.rules.rewards, self.now, self.now.done(), self.waiting
        if action == self.wait_action:
            seconds = self.net.wait
            self.waiting += seconds
        else:
            seconds = self.net.transitions[action].duration
            self.waiting = 0
            now.fire(action)
        spent = now.run(seconds, rewards.transport_grace)
        reward = rewards.time * seconds
        reward += rewards.processing * spent.processing
        reward += rewards.chamber_overtime * spent.chamber_overtime
        reward += rewards.transport_overtime * spent.transport_overtime
        reward += rewards.token * (now.done() - done_before)
        if waiting_before < rewards.waiting_limit <= self.waiting:
            reward += rewards.waiting
        terminated = True
        if now.finished():
            reward += rewards.finish
        elif now.scrapped():
            reward += rewards.scrap
        elif self.rules.stop_when_dead and now.dead():
            reward += rewards.deadlock
        else:
            terminated = False
        truncated = not terminated and now.time >= self.rules.max_time
        if truncated:
            reward += rewards.timeout
        self._mask = self.mask()
        return self.observe(), float(np.float32(reward)), terminated, truncated, {"action_mask": self._mask, "time": now.time}

    def mask(self) -> NDArray[np.bool_]:
        """Which actions are legal."""
        legal = [self.now.may_fire(number) for number in range(len(self.net.transitions))]
        return np.array(legal + [False] * (self.wait_action - len(legal)) + [True])

    def metrics(self) -> list[float]:
        return [self.now.time, self.now.done(), self.now.finished(), bool(self.now.scrapped())]

    # -- observation --

    def observe(self) -> NDArray[np.float32]:
        values = self._observe_tokens() if self.features == "tokens" else self._observe_places()
        limit, max_time = self.rules.rewards.waiting_limit, self.rules.max_time
        values += [min(self.waiting, limit) / max(1, limit), min(self.now.time, max_time) / max_time]
        return np.array(values, np.float32)

    def _observe_tokens(self) -> list[float]:
        values: list[float] = []
        for token, place in enumerate(self.now.place_of):
            if place < 0:
                values += [0.0] * PER_TOKEN
                continue
            role = ROLES.index(self.net.places[place].role)
            values += [(token + 1) / self.sizes.tokens, (place + 1) / self.sizes.places, (role + 1) / len(ROLES)]
            values += [_scaled(self.now.time - self.now.arrived[token]), _scaled(self.now.scrap_in(token))]
        values += [0.0] * (PER_TOKEN * self.sizes.tokens - len(values))
        counts = self._observe_counts()
        return values + counts + [0.0] * (self.sizes.places - len(counts))

    def _observe_places(self) -> list[float]:
        values: list[float] = []
        for place, (count, queue) in enumerate(zip(self._observe_counts(), self.now.queues, strict=True)):
            values.append(count)
            if queue:
                first, last = self.now.ready_in(place, 0), self.now.ready_in(place, -1)
                scrap = self.now.scrap_in(queue[0])
                values += [float(first <= 0), _scaled(max(0, first)), _scaled(scrap), _scaled(max(0, last))]
            else:
                values += [0.0] * (PER_PLACE - 1)
        return values + [0.0] * (PER_PLACE * self.sizes.places - len(values))

    def _observe_counts(self) -> list[float]:
        return [min(10.0, count * scale) for count, scale in zip(self.now.counts, self._scales, strict=True)]

    # -- for people --

    def describe_action(self, action: int) -> str:
        if 0 <= action < len(self.net.transitions):
            return self.net.transitions[action].name
        return "WAIT" if action == self.wait_action else f"action {action}"

    def parse_action(self, text: str) -> int:
        """The action that `describe_action` describes; it must be legal."""
        word = text.strip()
        if word.upper() == "WAIT":
            return self.wait_action
        if word not in self.net.transition_number:
            raise ValueError(f"there is no transition {word!r}; type WAIT or one of {', '.join(self.net.transition_number)}")
        action = self.net.transition_number[word]
        if not self._mask[action]:
            raise ValueError(f"{word} cannot fire now")
        return action

    def draw(self) -> Picture:
        """Each place with its tokens: yellow while processed, green when ready, red near scrap."""
        return picture(self.now)

    def render(self) -> str:
        return plain(self.draw())

    # -- saving and fixing the state --

    def encode_start(self, options: Mapping[str, Any]) -> Start:
        """Check the options of a reset. A fixed start always brings its net, so that it does not depend on the one before."""
        net, first = read_start(options, self.default_net)
        return Start(first.numbers(self.sizes.places), encode(net, self.rules, self.sizes))

    def pack(self) -> NDArray[np.uint64]:
        """The whole state as numbers, for checkpoints: `unpack` restores it exactly, but for names."""
        now, unused = self.now, [-1] * (self.sizes.tokens - self.net.token_limit)
        order = [token for queue in now.queues for token in queue]
        order += [-1] * (self.sizes.tokens - len(order))
        counts = now.counts + [0] * (self.sizes.places - len(now.counts))
        numbers = [now.time, self.waiting, *counts, *order, *now.place_of, *unused, *now.arrived, *unused]
        tables = encode(self.net, self.rules, self.sizes).values()
        wide = [table.astype(np.float64).ravel().view(np.uint64) for table in tables]
        return np.concatenate([np.array(numbers, np.int64).view(np.uint64), *wide])

    def unpack(self, state: NDArray[np.uint64]) -> None:
        shapes, tokens = self.sizes.tables(), self.sizes.tokens
        lengths = [2, self.sizes.places, tokens, tokens, tokens, *(prod(table.shape) for table in shapes)]
        parts = np.split(np.ascontiguousarray(state), np.cumsum(lengths)[:-1])
        pairs = zip(shapes, parts[5:], strict=True)
        saved = {table.name: part.view(np.float64).astype(table.dtype).reshape(table.shape) for table, part in pairs}
        own = encode(self.net, self.rules, self.sizes)
        if any(not np.array_equal(saved[name], table) for name, table in own.items()):
            net, self.rules = decode(saved)
            self._use(net)
        (time, self.waiting), counts, order, place_of, arrived = (part.view(np.int64).tolist() for part in parts[:5])
        self.now = now = TimedNet(self.net)
        now.time, now.counts = time, counts[: len(self.net.places)]
        now.place_of, now.arrived = place_of[: self.net.token_limit], arrived[: self.net.token_limit]
        now.queues = [deque(t for t in order if t >= 0 and now.place_of[t] == place) for place in range(len(self.net.places))]
        self._mask = self.mask()


def _scaled(seconds: int | None) -> float:
    return (FAR if seconds is None else max(-FAR, min(FAR, seconds))) * TIME_UNIT


def _whole(name: str, value: int | None, least: int, most: int, default: int = 0) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"petri: {name} must be a whole number from {least:,} to {most:,}, not {value!r}")
    return value

"""What a timed Petri net is: places, transitions, arcs, guards; and a builder.

A net is data. Its untimed rules are in `marking.py`, its timed rules in `reference.py`, its file format in `pnml.py`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

MAX_NODES = 1_000  # places, and transitions
MAX_ARCS = 32  # inputs, outputs and guards, each, of one transition
MAX_TOKENS = 1_000  # identified tokens
MAX_COUNT = 1_000_000  # any other count of tokens, a weight or a time in seconds


class Role(StrEnum):
    """What a place is for; it decides what time spent there is worth. In the order that observations number them."""

    BUFFER = "buffer"  # tokens wait
    CHAMBER = "chamber"  # tokens are processed
    TRANSPORT = "transport"  # tokens are carried
    SINK = "sink"  # tokens are done
    RESOURCE = "resource"  # tokens are robots, slots, permits: counted, with no identity and no time


@dataclass(frozen=True)
class Place:
    """Holds tokens in the order in which they came (first in, first out).

    A token may leave after `process` seconds. If it has not left `residency` seconds after that, it is scrap.
    """

    name: str
    tokens: int = 0  # at the start
    capacity: int | None = None
    process: int = 0
    residency: int | None = None
    role: Role = Role.BUFFER

    @property
    def room(self) -> int:
        """The most tokens that it can hold."""
        return MAX_COUNT if self.capacity is None else self.capacity

    @property
    def scrap_after(self) -> int | None:
        """The longest stay in seconds."""
        return None if self.residency is None else self.process + self.residency


@dataclass(frozen=True)
class Arc:
    place: str
    weight: int = 1


@dataclass(frozen=True)
class Guard:
    """A transition may fire only while `place` holds fewer than `below` tokens (an inhibitor arc)."""

    place: str
    below: int


@dataclass(frozen=True)
class Transition:
    """Takes tokens from its inputs and puts tokens into its outputs, at once; then the clock runs for `duration` seconds.

    Identified tokens go on as they came: the first one taken, in the order of the arcs, is the first one put down. Where more
    are put down than were taken, new ones are made; where fewer, the rest are used up.
    """

    name: str
    inputs: tuple[Arc, ...]
    outputs: tuple[Arc, ...]
    guards: tuple[Guard, ...] = ()
    duration: int = 5


@dataclass(frozen=True)
class Wiring:
    """A transition by place numbers: (place, weight) of inputs and outputs, (place, below) of guards."""

    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]
    guards: tuple[tuple[int, int], ...]
    change: tuple[tuple[int, int], ...]  # (place, tokens gained or lost), where that is not zero
    taken: int  # identified tokens
    put: int


@dataclass(frozen=True)
class Net:
    """A net and its first marking. `wait`: the seconds that pass when nothing fires.

    `token_limit`: how many identified tokens there can be at a time; a transition that would make more may not fire. By
    default as many as there are at first if no transition makes any, else what the capacities allow, else 256.
    """

    places: tuple[Place, ...]
    transitions: tuple[Transition, ...]
    name: str = "net"
    wait: int = 5
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        check(self)

    @cached_property
    def place_number(self) -> dict[str, int]:
        return {place.name: number for number, place in enumerate(self.places)}

    @cached_property
    def transition_number(self) -> dict[str, int]:
        return {transition.name: number for number, transition in enumerate(self.transitions)}

    @cached_property
    def wiring(self) -> tuple[Wiring, ...]:
        return tuple(self._wire(transition) for transition in self.transitions)

    def _wire(self, transition: Transition) -> Wiring:
        number = self.place_number
        inputs = tuple((number[arc.place], arc.weight) for arc in transition.inputs)
        outputs = tuple((number[arc.place], arc.weight) for arc in transition.outputs)
        change: dict[int, int] = {}
        for sign, arcs in ((-1, inputs), (1, outputs)):
            for place, weight in arcs:
                change[place] = change.get(place, 0) + sign * weight
        return Wiring(
            inputs,
            outputs,
            tuple((number[guard.place], guard.below) for guard in transition.guards),
            tuple((place, gain) for place, gain in change.items() if gain),
            sum(weight for place, weight in inputs if self.identified[place]),
            sum(weight for place, weight in outputs if self.identified[place]),
        )

    @cached_property
    def identified(self) -> tuple[bool, ...]:
        """Of each place, whether its tokens have an identity."""
        return tuple(place.role is not Role.RESOURCE for place in self.places)

    @property
    def marking(self) -> tuple[int, ...]:
        """The tokens at the start, by place."""
        return tuple(place.tokens for place in self.places)

    @cached_property
    def token_limit(self) -> int:
        first = self._first_tokens()
        if self.max_tokens is not None:
            return self.max_tokens
        if all(wiring.put <= wiring.taken for wiring in self.wiring):
            return max(1, first)
        capacities = [place.capacity for place in self.places if place.role is not Role.RESOURCE]
        bounds = [256 if capacity is None else capacity for capacity in capacities]
        return max(1, first, min(256, sum(bounds)))

    def _first_tokens(self) -> int:
        return sum(place.tokens for place in self.places if place.role is not Role.RESOURCE)


def check(net: Net) -> None:
    """Refuse what cannot be run, in one line."""
    _check_name("net", net.name)
    kinds: tuple[tuple[str, Iterable[Place | Transition]], ...] = (("place", net.places), ("transition", net.transitions))
    for kind, nodes in kinds:
        names = [node.name for node in nodes]
        _range(f"number of {kind}s", len(names), 1, MAX_NODES)
        for name in names:
            _check_name(kind, name)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"petri: two {kind}s are called {_shown(twice)}")
    _range("wait", net.wait, 1, MAX_COUNT)
    for place in net.places:
        _check_place(place)
    known = {place.name for place in net.places}
    for transition in net.transitions:
        _check_transition(transition, known)
    first = net._first_tokens()
    _range("number of identified tokens", first, 0, MAX_TOKENS)
    if net.max_tokens is not None:
        _range("max_tokens", net.max_tokens, max(1, first), MAX_TOKENS)


def _check_name(kind: str, name: object) -> None:
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= 200 or " ".join(name.split()) != name:
        raise ValueError(f"petri: a {kind} needs a name of 1 to 200 printable characters, not {_shown(name)}")


def _check_place(place: Place) -> None:
    if not isinstance(place.role, Role):
        raise ValueError(f"petri: the role of place {_shown(place.name)} must be one of {', '.join(Role)}, not {place.role!r}")
    where = f"of place {_shown(place.name)}"
    _range(f"tokens {where}", place.tokens, 0, MAX_COUNT)
    _range(f"process time {where}", place.process, 0, MAX_COUNT)
    if place.capacity is not None:
        _range(f"capacity {where}", place.capacity, max(1, place.tokens), MAX_COUNT)
    if place.residency is not None:
        _range(f"residency {where}", place.residency, 0, MAX_COUNT)
    if place.role is Role.RESOURCE and (place.process or place.residency is not None):
        raise ValueError(f"petri: place {_shown(place.name)} is a resource, so it has neither process time nor residency")
    if place.role is Role.SINK and place.residency is not None:
        raise ValueError(f"petri: place {_shown(place.name)} is a sink, so it has no residency")


def _check_transition(transition: Transition, known: set[str]) -> None:
    where = f"of transition {_shown(transition.name)}"
    _range(f"duration {where}", transition.duration, 1, MAX_COUNT)
    ends: tuple[tuple[str, tuple[Arc | Guard, ...]], ...] = (
        ("inputs", transition.inputs),
        ("outputs", transition.outputs),
        ("guards", transition.guards),
    )
    for label, arcs in ends:
        _range(f"number of {label} {where}", len(arcs), 0, MAX_ARCS)
        names = [arc.place for arc in arcs]
        for arc in arcs:
            if arc.place not in known:
                raise ValueError(f"petri: the {label} {where} name a place that does not exist: {_shown(arc.place)}")
            if names.count(arc.place) > 1:
                raise ValueError(f"petri: the {label} {where} name place {_shown(arc.place)} twice; use a weight")
            number = arc.weight if isinstance(arc, Arc) else arc.below
            _range(f"weight between {_shown(arc.place)} and {_shown(transition.name)}", number, 1, MAX_COUNT)


def _range(label: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"petri: {label} must be a whole number from {least:,} to {most:,}, not {_shown(value)}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class NetBuilder:
    """Builds a net step by step.

    ```
    net = NetBuilder("shop")
    net.place("queue", tokens=3).place("oven", capacity=1, process=60, residency=20, role="chamber").place("out", role="sink")
    net.transition("load", ["queue"], ["oven"]).transition("unload", ["oven"], ["out"])
    env = hotlap.make_vec("petri", net=net.build())
    ```
    """

    def __init__(self, name: str = "net", wait: int = 5, max_tokens: int | None = None) -> None:
        self._name, self._wait, self._max_tokens = name, wait, max_tokens
        self._places: list[Place] = []
        self._transitions: list[Transition] = []

    def place(
        self,
        name: str,
        tokens: int = 0,
        capacity: int | None = None,
        process: int = 0,
        residency: int | None = None,
        role: str = Role.BUFFER,
    ) -> "NetBuilder":
        try:
            known = Role(role)
        except ValueError:
            raise ValueError(f"petri: unknown role {role!r}; choose one of {', '.join(Role)}") from None
        self._places.append(Place(name, tokens, capacity, process, residency, known))
        return self

    def transition(
        self,
        name: str,
        inputs: Iterable[str] | Mapping[str, int],
        outputs: Iterable[str] | Mapping[str, int],
        below: Mapping[str, int] | None = None,
        duration: int = 5,
    ) -> "NetBuilder":
        """`inputs` and `outputs`: names of places, or their weights by name. `below`: guards, see `Guard`."""
        guards = tuple(Guard(place, limit) for place, limit in (below or {}).items())
        self._transitions.append(Transition(name, _arcs(inputs), _arcs(outputs), guards, duration))
        return self

    def build(self) -> Net:
        return Net(tuple(self._places), tuple(self._transitions), self._name, self._wait, self._max_tokens)


def _arcs(places: Iterable[str] | Mapping[str, int]) -> tuple[Arc, ...]:
    weights = places if isinstance(places, Mapping) else dict.fromkeys(places, 1)
    return tuple(Arc(place, weight) for place, weight in weights.items())

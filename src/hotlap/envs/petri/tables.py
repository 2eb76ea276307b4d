"""A net as the arrays that the kernel reads at run time. Nets of different size share one shape: they are padded.

Padding is harmless by value: an input of weight 0 is always there, a ceiling of `NONE` is never reached, and a transition that
does not exist asks for `NONE` tokens.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.petri.net import Arc, Guard, Net, Place, Role, Transition
from hotlap.envs.petri.rewards import RATES, Rewards
from hotlap.envs.spec import Table

NONE = 2**31 - 1  # no capacity, no limit
ROLES = tuple(Role)
PLACE_COLUMNS = 5  # tokens, capacity, process, scrap_after, role
TRANSITION_COLUMNS = 4  # duration, identified tokens taken, put, number of guards
SETTINGS = ("wait", "max_time", "waiting_limit", "transport_grace", "token_limit", "stop_when_dead", "places", "transitions")


@dataclass(frozen=True)
class Sizes:
    """The largest net that fits: places, transitions, identified tokens; inputs, outputs and guards, each, of a transition."""

    places: int
    transitions: int
    tokens: int
    arcs: int

    @classmethod
    def of(cls, net: Net) -> "Sizes":
        arcs = max(max(len(t.inputs), len(t.outputs), len(t.guards)) for t in net.transitions)
        return cls(len(net.places), len(net.transitions), net.token_limit, max(1, arcs))

    def check(self, net: Net) -> None:
        needed = Sizes.of(net)
        for name in ("places", "transitions", "tokens", "arcs"):
            if getattr(needed, name) > getattr(self, name):
                raise ValueError(f"petri: net {net.name!r} needs max_{name}={getattr(needed, name)}, not {getattr(self, name)}")

    def tables(self) -> tuple[Table, ...]:
        """What the kernel's tables look like."""
        return (
            Table("place", "<i4", (self.places, PLACE_COLUMNS)),
            Table("transition", "<i4", (self.transitions, TRANSITION_COLUMNS)),
            Table("inputs", "<i4", (self.transitions, self.arcs, 2)),
            Table("outputs", "<i4", (self.transitions, self.arcs, 2)),
            Table("ceilings", "<i4", (self.transitions, 2 * self.arcs, 2)),
            Table("settings", "<i4", (len(SETTINGS),)),
            Table("rates", "<f8", (len(RATES),)),
            Table("place_code", "<f4", (self.places, 2)),
            Table("place_scale", "<f8", (self.places,)),
            Table("token_code", "<f4", (self.tokens,)),
        )


@dataclass(frozen=True)
class Rules:
    """What an environment adds to a net."""

    rewards: Rewards
    max_time: int
    stop_when_dead: bool


def encode(net: Net, rules: Rules, sizes: Sizes) -> dict[str, NDArray[Any]]:
    """The tables of a net."""
    sizes.check(net)
    tables = {table.name: np.zeros(table.shape, table.dtype) for table in sizes.tables()}
    tables["inputs"][:, 0, 1] = NONE  # until a transition says otherwise
    tables["ceilings"][:, :, 1] = NONE
    for number, place in enumerate(net.places):
        limits = [NONE if limit is None else limit for limit in (place.capacity, place.scrap_after)]
        tables["place"][number] = place.tokens, limits[0], place.process, limits[1], ROLES.index(place.role)
    for number, (transition, wiring) in enumerate(zip(net.transitions, net.wiring, strict=True)):
        tables["transition"][number] = transition.duration, wiring.taken, wiring.put, len(wiring.guards)
        tables["inputs"][number, 0, 1] = 0
        ceilings = [(place, below - 1) for place, below in wiring.guards]
        for target, gain in wiring.change:
            if gain > 0:
                ceilings.append((target, net.places[target].room - gain))
        for name, arcs in (("inputs", wiring.inputs), ("outputs", wiring.outputs), ("ceilings", tuple(ceilings))):
            tables[name][number, : len(arcs)] = np.array(arcs, np.int32).reshape(-1, 2)
    settings = {
        "wait": net.wait,
        "max_time": rules.max_time,
        "waiting_limit": rules.rewards.waiting_limit,
        "transport_grace": rules.rewards.transport_grace,
        "token_limit": net.token_limit,
        "stop_when_dead": int(rules.stop_when_dead),
        "places": len(net.places),
        "transitions": len(net.transitions),
    }
    tables["settings"][:] = [settings[name] for name in SETTINGS]
    tables["rates"][:] = rules.rewards.rates()
    tables["token_code"][:] = [(token + 1) / sizes.tokens for token in range(sizes.tokens)]
    for number, place in enumerate(net.places):
        tables["place_code"][number] = (number + 1) / sizes.places, (ROLES.index(place.role) + 1) / len(ROLES)
        tables["place_scale"][number] = count_scale(net, number)
    return tables


def count_scale(net: Net, number: int) -> float:
    """What the number of tokens of a place is multiplied by in observations: full is 1."""
    place = net.places[number]
    most = place.tokens if place.role is Role.RESOURCE else net.token_limit
    return 1 / max(1, most if place.capacity is None else place.capacity)


def decode(tables: dict[str, NDArray[Any]]) -> tuple[Net, Rules]:
    """A net and its rules from their tables, as far as they know it: names become numbers."""
    settings = dict(zip(SETTINGS, tables["settings"].tolist(), strict=True))
    rows = tables["place"].tolist()[: settings["places"]]
    places = tuple(
        Place(
            f"p{number}",
            tokens,
            None if capacity == NONE else capacity,
            process,
            None if scrap_after == NONE else scrap_after - process,
            ROLES[role],
        )
        for number, (tokens, capacity, process, scrap_after, role) in enumerate(rows)
    )
    transitions = []
    for number in range(settings["transitions"]):
        duration, _, _, guards = tables["transition"][number].tolist()
        inputs, outputs = (
            tuple(Arc(f"p{place}", weight) for place, weight in tables[name][number].tolist() if weight)
            for name in ("inputs", "outputs")
        )
        blocked = tuple(Guard(f"p{place}", most + 1) for place, most in tables["ceilings"][number, :guards].tolist())
        transitions.append(Transition(f"t{number}", inputs, outputs, blocked, duration))
    net = Net(places, tuple(transitions), wait=settings["wait"], max_tokens=settings["token_limit"])
    terms: dict[str, Any] = dict(zip(RATES, tables["rates"].tolist(), strict=True))
    terms |= {name: settings[name] for name in ("transport_grace", "waiting_limit")}
    rewards = Rewards(**terms)
    return net, Rules(rewards, settings["max_time"], bool(settings["stop_when_dead"]))

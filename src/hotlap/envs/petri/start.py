"""The marking that an episode begins with: the net's own, or one that `reset(options=...)` fixes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.petri.net import MAX_COUNT, Net
from hotlap.envs.petri.pnml import read_pnml
from hotlap.envs.start import check_keys


@dataclass(frozen=True)
class FirstMarking:
    """Tokens by place; of the identified ones, how long each has been there in seconds, the longest first."""

    counts: tuple[int, ...]
    stays: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, net: Net) -> "FirstMarking":
        identified = zip(net.marking, net.identified, strict=True)
        return cls(net.marking, tuple((0,) * count if has_identity else () for count, has_identity in identified))

    def numbers(self, places: int) -> NDArray[np.int32]:
        """As the kernel reads it: the tokens of each of `places` places, then all stays."""
        counts = [*self.counts, *[0] * (places - len(self.counts))]
        return np.array(counts + [stay for each in self.stays for stay in each], np.int32)


def load_net(net: Net | str | Path) -> Net:
    """A net, or the net in a PNML file."""
    if isinstance(net, Net):
        return net
    if isinstance(net, str | Path):
        return read_pnml(net)
    raise ValueError(f"petri: net must be a Net or the path of a PNML file, not {type(net).__name__}")


def read_start(options: Mapping[str, Any], default: Net) -> tuple[Net, FirstMarking]:
    """What `reset(options={"net": ..., "marking": ...})` asks for; a marking without a net is one of the default net."""
    check_keys("petri", options, "net", "marking")
    net = load_net(options["net"]) if "net" in options else default
    if "marking" not in options:
        return net, FirstMarking.of(net)
    given = options["marking"]
    if not isinstance(given, Mapping):
        raise ValueError("petri: marking must be {place: number of tokens, or a list of how long each has been there}")
    for name in given:
        if name not in net.place_number:
            raise ValueError(f"petri: the marking names a place that net {net.name!r} does not have: {name!r}")
    counts, stays = [], []
    for place, identified in zip(net.places, net.identified, strict=True):
        tokens = given.get(place.name, 0)
        if identified and _count(tokens) and tokens > net.token_limit:
            raise ValueError(_too_many(tokens, net))  # before as many stays are listed
        each = [0] * tokens if identified and _count(tokens) else tokens
        if not identified:
            if not _count(tokens):
                raise ValueError(f"petri: the marking of resource {place.name} must be a number of tokens, not {tokens!r}")
        elif not isinstance(each, Sequence) or isinstance(each, str) or not all(_count(stay) for stay in each):
            raise ValueError(f"petri: the marking of {place.name} must be a number of tokens or their stays, not {tokens!r}")
        elif sorted(each, reverse=True) != list(each):
            raise ValueError(f"petri: the marking of {place.name} must list stays from the longest to the shortest")
        counts.append(len(each) if identified else tokens)
        stays.append(tuple(each) if identified else ())
        if place.capacity is not None and counts[-1] > place.capacity:
            raise ValueError(f"petri: the marking puts {counts[-1]} tokens into {place.name}, which holds {place.capacity}")
    if (total := sum(map(len, stays))) > net.token_limit:
        raise ValueError(_too_many(total, net))
    return net, FirstMarking(tuple(counts), tuple(stays))


def _too_many(tokens: int, net: Net) -> str:
    return f"petri: the marking has {tokens} tokens, net {net.name!r} at most {net.token_limit}"


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT

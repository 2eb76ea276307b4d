"""The untimed rules of a net: which transitions a marking enables, and what firing one leads to.

A marking is the number of tokens of each place. A transition is enabled if its inputs hold enough tokens, no output would hold
more than its capacity afterwards (without one: a million), and no guard blocks it.
"""

from collections.abc import Iterable, Sequence

from hotlap.envs.petri.net import Net, Wiring

Marking = tuple[int, ...]


def allows(net: Net, marking: Sequence[int], wiring: Wiring) -> bool:
    """Whether a marking enables a transition."""
    for place, weight in wiring.inputs:
        if marking[place] < weight:
            return False
    for place, below in wiring.guards:
        if marking[place] >= below:
            return False
    return all(gain <= 0 or marking[place] + gain <= net.places[place].room for place, gain in wiring.change)


def enabled(net: Net, marking: Sequence[int]) -> list[int]:
    """The numbers of the transitions that a marking enables."""
    return [number for number, wiring in enumerate(net.wiring) if allows(net, marking, wiring)]


def fire(net: Net, marking: Sequence[int], transition: int) -> Marking:
    """The marking after a transition, which must be enabled."""
    after = list(marking)
    for place, gain in net.wiring[transition].change:
        after[place] += gain
    return tuple(after)


def fire_sequence(net: Net, transitions: Iterable[str], marking: Sequence[int] | None = None) -> list[Marking]:
    """Fire transitions by name, one after another; the markings, the first one included. Raises at one that is not enabled."""
    markings = [tuple(net.marking if marking is None else marking)]
    for position, name in enumerate(transitions):
        if name not in net.transition_number:
            raise ValueError(f"petri: there is no transition {name!r} (number {position} of the sequence)")
        number = net.transition_number[name]
        if not allows(net, markings[-1], net.wiring[number]):
            raise ValueError(
                f"petri: {name} (number {position} of the sequence) is not enabled in {describe(net, markings[-1])}"
            )
        markings.append(fire(net, markings[-1], number))
    return markings


def describe(net: Net, marking: Sequence[int]) -> str:
    """The places that hold tokens: `LP 3, TM2 1`."""
    held = [f"{place.name} {count}" for place, count in zip(net.places, marking, strict=True) if count]
    return ", ".join(held) or "the empty marking"

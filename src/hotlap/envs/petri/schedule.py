"""What a sequence of actions does to the tokens of a net, as a schedule: who was where, from when to when."""

from collections.abc import Iterable
from dataclasses import dataclass

from hotlap.envs.petri.marking import describe
from hotlap.envs.petri.net import Net, Place
from hotlap.envs.petri.start import FirstMarking
from hotlap.envs.petri.timed import TimedNet

WAIT = "WAIT"


@dataclass(frozen=True)
class Stay:
    """A token in a place. `ready`: when it may leave."""

    token: int
    place: Place
    begin: int
    end: int
    ready: int

    @property
    def scrapped(self) -> bool:
        limit = self.place.scrap_after
        return limit is not None and self.end - self.begin > limit


@dataclass(frozen=True)
class Firing:
    time: int
    transition: str


@dataclass(frozen=True)
class Schedule:
    """`stays` in the order in which they began; those that last to the end of the schedule end there."""

    net: Net
    stays: tuple[Stay, ...]
    firings: tuple[Firing, ...]
    makespan: int
    done: int  # tokens in sinks
    tokens: int

    @property
    def finished(self) -> bool:
        return 0 < self.done == self.tokens

    @property
    def scrapped(self) -> tuple[Stay, ...]:
        return tuple(stay for stay in self.stays if stay.scrapped)


def schedule(net: Net, actions: Iterable[str | int], first: FirstMarking | None = None) -> Schedule:
    """Fire transitions by name or number, or wait: "WAIT", or a number past the last transition, as in the environment.

    It goes on when a token is scrap, unlike the environment. Raises at an action that is not legal.
    """
    now = TimedNet(net, first)
    stays, firings = [], []
    since = dict(enumerate(now.arrived[: now.tokens()]))

    def leave(token: int, number: int) -> None:
        place, begin = net.places[number], since[token]
        stays.append(Stay(token, place, begin, now.time, begin + place.process))

    for position, action in enumerate(actions):
        number = _number(net, action)
        if number is None:
            now.run(net.wait, 0)
            continue
        name = net.transitions[number].name
        if not now.may_fire(number):
            where = f"{describe(net, now.counts)} at {now.time} s"
            raise ValueError(f"petri: {name} (action {position} of the schedule) is not legal in {where}")
        firings.append(Firing(now.time, name))
        for token, source, target in now.fire(number):
            if source >= 0:
                leave(token, source)
            if target >= 0:
                since[token] = now.time
        now.run(net.transitions[number].duration, 0)
    for token, number in enumerate(now.place_of):
        if number >= 0:
            leave(token, number)
    stays.sort(key=lambda stay: (stay.begin, stay.token))
    return Schedule(net, tuple(stays), tuple(firings), now.time, now.done(), now.tokens())


def _number(net: Net, action: str | int) -> int | None:
    """A transition; None: wait."""
    if isinstance(action, str):
        if action == WAIT:
            return None
        if action not in net.transition_number:
            raise ValueError(f"petri: there is no transition {action!r}; {WAIT} waits")
        return net.transition_number[action]
    if action < 0:
        raise ValueError(f"petri: there is no action {action}")
    return int(action) if action < len(net.transitions) else None

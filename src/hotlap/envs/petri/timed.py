"""The timed rules of a net, in plain Python: identified tokens that come, are processed, wait and go.

`reference.py` makes an environment of it, `schedule.py` a schedule.
"""

from collections import deque
from dataclasses import dataclass

from hotlap.envs.petri.marking import allows
from hotlap.envs.petri.net import Net, Role
from hotlap.envs.petri.start import FirstMarking


@dataclass(frozen=True)
class Seconds:
    """What the tokens did in an interval, summed over them."""

    processing: int  # in chambers
    chamber_overtime: int  # in chambers, after processing
    transport_overtime: int  # in transport places, after the grace


class TimedNet:
    """A net at a time. `counts`: tokens by place; `queues`: ids of the identified tokens of each place, first in first;
    `place_of` (-1: there is no such token) and `arrived`: of each id."""

    def __init__(self, net: Net, first: FirstMarking | None = None) -> None:
        first = FirstMarking.of(net) if first is None else first
        self.net = net
        self.time = 0
        self.counts = list(first.counts)
        self.queues: list[deque[int]] = [deque() for _ in first.counts]
        self.place_of = [-1] * net.token_limit
        self.arrived = [0] * net.token_limit
        token = 0
        for place, stays in enumerate(first.stays):
            for stay in stays:
                self._put(token, place, -stay)
                token += 1

    # -- what happens --

    def fire(self, transition: int) -> list[tuple[int, int, int]]:
        """Move tokens, now; (id, from, to) of each identified one, -1: from or to nowhere."""
        wiring, moves = self.net.wiring[transition], []
        taken = [
            (self._take(place), place) for place, weight in wiring.inputs if self.net.identified[place] for _ in range(weight)
        ]
        for place, weight in wiring.outputs:
            for _ in range(weight if self.net.identified[place] else 0):
                token, source = taken.pop(0) if taken else (self.place_of.index(-1), -1)
                self._put(token, place, self.time)
                moves.append((token, source, place))
        for place, gain in wiring.change:
            self.counts[place] += gain
        return moves + [(token, source, -1) for token, source in taken]

    def _take(self, place: int) -> int:
        token = self.queues[place].popleft()
        self.place_of[token] = -1
        return token

    def _put(self, token: int, place: int, arrived: int) -> None:
        self.queues[place].append(token)
        self.place_of[token], self.arrived[token] = place, arrived

    def run(self, seconds: int, transport_grace: int) -> Seconds:
        """Let time pass."""
        begin, end = self.time, self.time + seconds
        processing = chamber_overtime = transport_overtime = 0
        for token, number in enumerate(self.place_of):
            if number < 0:
                continue
            place = self.net.places[number]
            if place.role is Role.CHAMBER:
                ready = self.arrived[token] + place.process
                processing += max(0, min(end, ready) - begin)
                chamber_overtime += max(0, end - max(begin, ready))
            elif place.role is Role.TRANSPORT:
                late = self.arrived[token] + transport_grace
                transport_overtime += max(0, end - max(begin, late))
        self.time = end
        return Seconds(processing, chamber_overtime, transport_overtime)

    # -- what holds now --

    def may_fire(self, transition: int) -> bool:
        return self.fits(transition) and all(
            self.ready_in(place, weight - 1) <= 0
            for place, weight in self.net.wiring[transition].inputs
            if self.net.identified[place]
        )

    def fits(self, transition: int) -> bool:
        """Whether it could fire if all tokens were ready."""
        wiring = self.net.wiring[transition]
        made = wiring.put - wiring.taken
        return allows(self.net, self.counts, wiring) and (made <= 0 or self.tokens() + made <= self.net.token_limit)

    def ready_in(self, place: int, position: int) -> int:
        """Seconds until a token of a place is ready, 0 or less if it is."""
        return self.arrived[self.queues[place][position]] + self.net.places[place].process - self.time

    def scrap_in(self, token: int) -> int | None:
        """Seconds until a token is scrap, below 0 if it is; None: never."""
        limit = self.net.places[self.place_of[token]].scrap_after
        return None if limit is None else self.arrived[token] + limit - self.time

    def tokens(self) -> int:
        """Identified tokens."""
        return sum(place >= 0 for place in self.place_of)

    def done(self) -> int:
        """Tokens in sinks."""
        return sum(count for count, place in zip(self.counts, self.net.places, strict=True) if place.role is Role.SINK)

    def finished(self) -> bool:
        return 0 < self.done() == self.tokens()

    def scrapped(self) -> list[int]:
        """Tokens that stayed too long."""
        left = {token: self.scrap_in(token) for token, place in enumerate(self.place_of) if place >= 0}
        return [token for token, seconds in left.items() if seconds is not None and seconds < 0]

    def dead(self) -> bool:
        """Whether nothing can fire any more, however long one waits."""
        return not any(self.fits(number) for number in range(len(self.net.transitions)))

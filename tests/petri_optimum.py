"""The shortest schedule of the cluster tool, by exhaustive search: an oracle for what a policy has learned.

Every action takes 5 s, so `exhaustive` visits all states that can be reached, by time. `bounded` (A*) looks first at the states
from which a tool with a robot for each hop would finish first, and never at those from which even it would be too late.

python -m tests.petri_optimum 1 2 3 4 12
"""

import heapq
import sys
from itertools import count

from hotlap.envs.petri.cluster import MOVE, STATIONS, cluster_tool
from hotlap.envs.petri.marking import allows
from hotlap.envs.petri.net import Role

NAMES = ("LP", *(name for name, *_ in STATIONS))
PROCESS = (0, *(process for _, _, process, *_ in STATIONS))
CAPACITY = (None, *(capacity for _, capacity, *_ in STATIONS))
# Seconds from when a wafer leaves a full station until another arrives there: one firing later where the robot may already hold
# it; where a guard keeps it from fetching one, the same robot first puts down, then picks up and brings.
REFILL = (0, 3 * MOVE, MOVE, 3 * MOVE, MOVE, 3 * MOVE)
MOST = 4  # wafers that can be searched in a minute


class Search:
    """States are the stays of the tokens in each place, as long as they matter; resources are numbers of tokens."""

    def __init__(self, wafers):
        self.net, self.wafers = cluster_tool(wafers), wafers
        self.places = self.net.places
        self.sink = self.net.place_number["done"]
        self.stations = [self.net.place_number[name] for name in NAMES]
        self.moving = [self.net.place_number[f"d_{name}"] for name in (*NAMES[1:], "done")]
        first = zip(self.places, self.net.identified, strict=True)
        self.start = tuple((0,) * place.tokens if identified else place.tokens for place, identified in first)

    def after(self, state):
        """(action, state) of every action that scraps nothing."""
        counts = [len(part) if isinstance(part, tuple) else part for part in state]
        moved = [("WAIT", state)]
        for transition, wiring in zip(self.net.transitions, self.net.wiring, strict=True):
            ready = allows(self.net, counts, wiring) and all(
                state[place][weight - 1] >= self.places[place].process
                for place, weight in wiring.inputs
                if self.net.identified[place]
            )
            if ready:
                parts = list(state)
                for place, weight in wiring.inputs:
                    parts[place] = parts[place][weight:] if self.net.identified[place] else parts[place] - weight
                for place, weight in wiring.outputs:
                    parts[place] += (0,) * weight if self.net.identified[place] else weight
                moved.append((transition.name, tuple(parts)))
        later = ((name, self.later(parts)) for name, parts in moved)
        return [(name, parts) for name, parts in later if parts is not None]

    def later(self, state):
        """A state when time has passed; None: a wafer is scrap."""
        parts = []
        for place, part in zip(self.places, state, strict=True):
            if isinstance(part, tuple) and part and place.role is not Role.SINK:
                if place.scrap_after is None:
                    part = tuple(min(stay + MOVE, place.process) for stay in part)
                elif part[0] + MOVE > place.scrap_after:
                    return None
                else:
                    part = tuple(stay + MOVE for stay in part)
            parts.append(part)
        return tuple(parts)

    def finished(self, state):
        return len(state[self.sink]) == self.wafers

    def least(self, state):
        """Seconds that are needed at least: wafers go through the stations in a line, and wait for room, but for no robot."""
        left = [[] for _ in NAMES]  # when the wafers so far left each station
        end = 0
        for station, time in self.line(state):
            while station < len(NAMES):
                left[station].append(time)
                station, arrival = station + 1, time + MOVE
                if station < len(NAMES):
                    if len(left[station]) >= CAPACITY[station]:
                        arrival = max(arrival, left[station][-CAPACITY[station]] + REFILL[station])
                    time = arrival + max(MOVE, PROCESS[station])
                else:
                    time = arrival
            end = max(end, time + MOVE)
        return end

    def line(self, state):
        """(station, seconds until it can be left) of each wafer that is not done, the first of the line first."""
        for station in range(len(NAMES), -1, -1):
            if station < len(NAMES):
                for stay in state[self.stations[station]]:
                    yield station, max(0, PROCESS[station] - stay)
            for stay in state[self.moving[station - 1]] if station else ():
                down = max(0, MOVE - stay)
                yield station, down if station == len(NAMES) else down + max(MOVE, PROCESS[station])


def exhaustive(wafers):
    """Seconds of the shortest schedule, from all states by time."""
    search = Search(wafers)
    seen, states, time = {search.start}, {search.start}, 0
    while not any(map(search.finished, states)):
        states = {after for state in states for _, after in search.after(state)} - seen
        seen |= states
        time += MOVE
    return time


def bounded(wafers):
    """A shortest schedule, as names of actions, and how many states were looked at."""
    search, order = Search(wafers), count()
    came = {search.start: (0, "", None)}  # when, by what, from where
    promising = [(search.least(search.start), 0, next(order), search.start)]
    looked_at = 0
    while promising:
        _, early, _, state = heapq.heappop(promising)
        time = -early
        if came[state][0] < time:  # reached earlier since
            continue
        looked_at += 1
        if search.finished(state):
            return path(came, state), looked_at
        for action, after in search.after(state):
            if after not in came or time + MOVE < came[after][0]:
                came[after] = (time + MOVE, action, state)
                heapq.heappush(promising, (time + MOVE + search.least(after), early - MOVE, next(order), after))
    raise AssertionError("there is no schedule without scrap")


def path(came, state):
    actions = []
    while state is not None:
        _, action, state = came[state]
        actions.append(action)
    return actions[-2::-1]


if __name__ == "__main__":
    for number in map(int, sys.argv[1:]):
        search = Search(number)
        print(f"{number} wafers: at least {search.least(search.start)} s", flush=True)
        if number <= MOST:
            best, states = bounded(number)
            print(f"{number} wafers: {len(best) * MOVE} s, {states:,} states looked at", flush=True)

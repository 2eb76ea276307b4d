"""All markings that a bounded net can reach, untimed; and the dead ones, where nothing can fire any more."""

from collections import deque
from dataclasses import dataclass

from hotlap.envs.petri.marking import Marking, allows, describe, fire
from hotlap.envs.petri.net import Net

LIMIT = 1_000_000  # markings


@dataclass(frozen=True)
class Reachability:
    """`parent` holds how each marking was first reached: (marking before, transition); the first marking has None."""

    parent: dict[Marking, tuple[Marking, int] | None]
    arcs: int
    dead: tuple[Marking, ...]

    @property
    def markings(self) -> int:
        return len(self.parent)

    def path(self, net: Net, marking: Marking) -> list[str]:
        """A shortest firing sequence from the first marking to this one, by name."""
        names = []
        step = self.parent[marking]
        while step is not None:
            names.append(net.transitions[step[1]].name)
            step = self.parent[step[0]]
        return names[::-1]


def reachability(net: Net, limit: int = LIMIT) -> Reachability:
    """Enumerate breadth first. A net with more than `limit` markings is refused: it may have no end."""
    first: Marking = net.marking
    parent: dict[Marking, tuple[Marking, int] | None] = {first: None}
    queue, arcs, dead = deque([first]), 0, []
    while queue:
        marking = queue.popleft()
        successors = [(number, fire(net, marking, number)) for number, w in enumerate(net.wiring) if allows(net, marking, w)]
        arcs += len(successors)
        if not successors:
            dead.append(marking)
        for number, after in successors:
            if after not in parent:
                parent[after] = (marking, number)
                queue.append(after)
        if len(parent) > limit:
            raise ValueError(f"petri: more than {limit:,} markings can be reached, such as {describe(net, queue[-1])}")
    return Reachability(parent, arcs, tuple(dead))


def dead_markings(net: Net, limit: int = LIMIT) -> tuple[Marking, ...]:
    """Markings that can be reached and enable nothing; of a net that ends, the end is one of them."""
    return reachability(net, limit).dead

"""What Blue can remember of an episode, from its own actions and the 52 bits of each step alone, as zeros and ones.

After the 52 bits of the table, in this order (`PARTS`):
- `seen`: hosts that ever showed a scan (13), an exploit (13)
- `running`: decoys that run, a bit for each of the 41 that a host can have
- `known`: those of them that ran when their host last showed a scan; Red does not know of others
- `done`: what Blue has done to a host since that last showed activity: Analyse (13), Remove (13), a decoy (13), Restore (13)
- `recent`: of each of the `RECENT` steps before this one, the host that showed activity (13), and whether by an exploit
- `time`: whether so many steps (`TIMES`) are over

The environment shows it (`observation="history"`), and `systems/cage2_policy.py` keeps one beside a simulator elsewhere.
"""

from collections.abc import Sequence

from hotlap.envs.cage2.actions import Command
from hotlap.envs.cage2.network import Network
from hotlap.envs.cage2.scenario import NUM_DECOYS, NUM_HOSTS, BlueKind

RECENT = 6
TIMES = (1, 2, 3, 4, 6, 8, 10, 15, 20, 30, 50, 70, 90, 95, 98, 99)
DONE = (BlueKind.ANALYSE, BlueKind.REMOVE, BlueKind.DECOY, BlueKind.RESTORE)
QUIET, SCAN, EXPLOIT = range(3)  # what a host shows
TABLE = 4 * NUM_HOSTS


def _placeable() -> tuple[tuple[int, int], ...]:
    """(host, decoy) for each decoy that an untouched host accepts, in order."""
    untouched = Network()
    return tuple((h, d) for h in range(NUM_HOSTS) for d in range(NUM_DECOYS) if untouched.accepts(d, h))


PLACEABLE = _placeable()
PARTS = {
    "seen": 2 * NUM_HOSTS,
    "running": len(PLACEABLE),
    "known": len(PLACEABLE),
    "done": len(DONE) * NUM_HOSTS,
    "recent": RECENT * (NUM_HOSTS + 1),
    "time": len(TIMES),
}
SIZE = TABLE + sum(PARTS.values())


def activity_in(bits: Sequence[int]) -> tuple[int, int]:
    """Which host showed what in this step, by the table; (0, QUIET) if none did. Red makes at most one a step."""
    for host in range(NUM_HOSTS):
        if bits[4 * host]:
            return host, EXPLOIT if bits[4 * host + 1] else SCAN
    return 0, QUIET


class History:
    """One episode of it."""

    def __init__(self) -> None:
        self.seen = [[0] * NUM_HOSTS for _ in (SCAN, EXPLOIT)]
        self.network = Network()  # for Blue's decoys alone
        self.known = [0] * len(PLACEABLE)
        self.done = [[0] * NUM_HOSTS for _ in DONE]
        self.recent = [(0, QUIET)] * (RECENT + 1)  # this step first
        self.steps = 0

    def update(self, command: Command, bits: Sequence[int]) -> None:
        """After a step: what Blue did, and the table that it sees now."""
        if command.kind in DONE:
            self.done[DONE.index(command.kind)][command.host] = 1
        if command.kind is BlueKind.DECOY:
            any(self.network.place(decoy, command.host) for decoy in command.decoys)
        if command.kind is BlueKind.RESTORE:
            self.network.restore(command.host)
        host, activity = activity_in(bits)
        self.recent = [(host, activity), *self.recent[:-1]]
        self.steps += 1
        if activity == QUIET:
            return
        self.seen[activity - 1][host] = 1
        for kind in self.done:
            kind[host] = 0
        if activity == SCAN:
            own = zip(PLACEABLE, self.known, self.running(), strict=True)
            self.known = [now if pair[0] == host else before for pair, before, now in own]

    def running(self) -> list[int]:
        return [int(self.network.hosts[host].decoys[decoy] > 0) for host, decoy in PLACEABLE]

    def features(self) -> list[int]:
        """All parts, after the table."""
        recent = [
            bit
            for host, activity in self.recent[1:]
            for bit in (*(int(activity != QUIET and h == host) for h in range(NUM_HOSTS)), int(activity == EXPLOIT))
        ]
        time = [int(self.steps >= steps) for steps in TIMES]
        seen, done = ([bit for row in rows for bit in row] for rows in (self.seen, self.done))
        return [*seen, *self.running(), *self.known, *done, *recent, *time]

    # -- saving; decoys are in the true state, which is saved beside it --

    def encode(self) -> list[int]:
        seen, done = ([bit for row in rows for bit in row] for rows in (self.seen, self.done))
        return [*seen, *self.known, *done, *(number for pair in self.recent for number in pair), self.steps]

    @classmethod
    def decode(cls, numbers: Sequence[int], network: Network) -> "History":
        """`network`: the true one, whose decoys are all Blue's."""
        history = cls()
        left = iter(numbers)
        history.seen = [[next(left) for _ in row] for row in history.seen]
        history.known = [next(left) for _ in PLACEABLE]
        history.done = [[next(left) for _ in row] for row in history.done]
        history.recent = [(next(left), next(left)) for _ in history.recent]
        history.steps = next(left)
        for own, true in zip(history.network.hosts, network.hosts, strict=True):
            own.decoys = list(true.decoys)
        return history


ENCODED = len(History().encode())

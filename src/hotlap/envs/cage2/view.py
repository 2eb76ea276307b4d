"""What Blue sees: a table of four bits for each host, and, if wanted, which hosts were scanned before."""

from collections.abc import Sequence
from enum import Enum

from hotlap.envs.cage2.scenario import ALERT_PORT, NAMES, NUM_HOSTS, BlueKind

MANY = 3  # entries of a host, and ports among them, that make a scan
SCAN_INPUTS = tuple(h for h, name in enumerate(NAMES) if not name.startswith("Op_Host"))


class Activity(Enum):
    """What happened on a host in this step; the value is its two bits."""

    NONE = (0, 0)
    SCAN = (1, 0)
    EXPLOIT = (1, 1)


class Compromise(Enum):
    """What Blue believes of a host; it stays until something changes it."""

    NO = (0, 0)
    UNKNOWN = (1, 0)
    USER = (0, 1)
    PRIVILEGED = (1, 1)


def activity_of(events: Sequence[int], decoy: bool) -> Activity:
    """Judged by the local ports of the connections on a host, and whether a decoy was placed there in this step."""
    entries, ports = len(events) + decoy, len(set(events))
    if entries == 0:
        return Activity.NONE
    if entries >= MANY and ports >= MANY:
        return Activity.SCAN
    if ALERT_PORT in events or (entries >= MANY and ports == 1):
        return Activity.EXPLOIT
    return Activity.NONE if decoy else Activity.SCAN


class BlueView:
    """The table and the scan inputs."""

    def __init__(self) -> None:
        self.activity = [Activity.NONE] * NUM_HOSTS
        self.compromise = [Compromise.NO] * NUM_HOSTS
        self.scans = [0] * NUM_HOSTS  # 2: the last host that showed a scan, 1: those before it

    def update(self, kind: BlueKind, host: int, placed: bool, found_files: bool, target: int, events: Sequence[int]) -> None:
        """After Blue's action on `host` and Red's attack, whose connections `target` noticed."""
        if kind is BlueKind.RESTORE:
            self.compromise[host] = Compromise.NO
        elif kind is BlueKind.REMOVE and self.compromise[host] is not Compromise.NO:
            self.compromise[host] = Compromise.UNKNOWN
        for h in range(NUM_HOSTS):
            self.activity[h] = activity_of(events if h == target else (), placed and h == host)
            if self.activity[h] is Activity.EXPLOIT:
                self.compromise[h] = Compromise.USER
            if self.activity[h] is Activity.SCAN and h in SCAN_INPUTS:
                self.scans = [min(seen, 1) for seen in self.scans]
                self.scans[h] = 2
        if found_files:
            self.compromise[host] = Compromise.PRIVILEGED

    def table(self) -> list[int]:
        """52 bits."""
        pairs = zip(self.activity, self.compromise, strict=True)
        return [bit for activity, compromise in pairs for bit in (*activity.value, *compromise.value)]

    def read_table(self, bits: Sequence[int]) -> None:
        self.activity = [Activity((bits[4 * h], bits[4 * h + 1])) for h in range(NUM_HOSTS)]
        self.compromise = [Compromise((bits[4 * h + 2], bits[4 * h + 3])) for h in range(NUM_HOSTS)]

    def scan_inputs(self) -> list[int]:
        return [self.scans[h] for h in SCAN_INPUTS]

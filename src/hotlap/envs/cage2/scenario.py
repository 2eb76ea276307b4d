"""Scenario2: hosts, ports, services, exploits, decoys, costs, and how both sides' actions are numbered. Nothing here changes.

Numbers are those of the recordings of CybORG 2.1 that the tests compare with (tests/data/cage2). The kernel gets these tables
as arrays (tables.py), so they are written once.
"""

from dataclasses import dataclass, field
from enum import IntEnum

# -- hosts --


class Subnet(IntEnum):
    ENTERPRISE = 0
    OPERATIONAL = 1
    USER = 2


class Exploit(IntEnum):
    """What Red can run against a service. NONE: its target was never scanned, so nothing was run."""

    NONE = 0
    ETERNAL_BLUE = 1
    BLUE_KEEP = 2
    HTTP_RFI = 3
    HTTPS_RFI = 4
    SSH_BRUTE_FORCE = 5
    SQL_INJECTION = 6
    HARAKA_RCE = 7
    FTP_TRAVERSAL = 8


class Gain(IntEnum):
    """What an exploit of a real service gives."""

    NOTHING = 0  # there is no such service
    SHELL = 1  # a reverse shell of a user
    ROOT_SHELL = 2  # a reverse shell of root or SYSTEM
    LOGIN = 3  # an SSH session of a user
    REFUSED = 4  # nobody whose password can be guessed


class Session(IntEnum):
    """Kinds of red sessions."""

    PRIVILEGED = 0
    ALERTED = 1  # a user's reverse shell that raised an alert: Remove kills it
    QUIET = 2  # a user's reverse shell that raised none
    SSH = 3  # a user's login


@dataclass(frozen=True)
class Host:
    name: str
    subnet: Subnet
    windows: bool
    sockets: tuple[int, ...]  # listening ports, one for each socket
    services: dict[Exploit, Gain]
    cost: int  # tenths of a point that a privileged red session costs Blue in every step
    reveals: str = ""  # the host whose address Red learns here by escalating


_LOGIN = {Exploit.SSH_BRUTE_FORCE: Gain.LOGIN}
_WEB = {Exploit.HTTP_RFI: Gain.SHELL, Exploit.HTTPS_RFI: Gain.SHELL}
_MAIL = {Exploit.HARAKA_RCE: Gain.ROOT_SHELL}
_RDP = {Exploit.BLUE_KEEP: Gain.ROOT_SHELL}
_FTP = {Exploit.FTP_TRAVERSAL: Gain.ROOT_SHELL}
_SMB = {Exploit.ETERNAL_BLUE: Gain.ROOT_SHELL, Exploit.BLUE_KEEP: Gain.SHELL}
_SQL = {Exploit.SQL_INJECTION: Gain.ROOT_SHELL}
_OFFICE = (22, 80, 443, 3389, 135, 445, 139)
_ENT, _OP, _USER = Subnet.ENTERPRISE, Subnet.OPERATIONAL, Subnet.USER

HOSTS = (
    Host("Defender", _ENT, False, (22, 53, 53, 68), {Exploit.SSH_BRUTE_FORCE: Gain.REFUSED}, 1),
    Host("Enterprise0", _ENT, False, (22,), _LOGIN, 10),
    Host("Enterprise1", _ENT, True, _OFFICE, _LOGIN | _WEB | _RDP, 10),
    Host("Enterprise2", _ENT, True, _OFFICE, _LOGIN | _WEB | _RDP, 10, "Op_Server0"),
    Host("Op_Host0", _OP, False, (22,), _LOGIN, 1),
    Host("Op_Host1", _OP, False, (22,), _LOGIN, 1),
    Host("Op_Host2", _OP, False, (22,), _LOGIN, 1),
    Host("Op_Server0", _OP, False, (22,), _LOGIN, 10),
    Host("User0", _USER, True, (22, 21), _LOGIN | _FTP, 0),
    Host("User1", _USER, True, (22, 21), _LOGIN | _FTP, 1, "Enterprise1"),
    Host("User2", _USER, True, (139, 445, 3389, 135), _SMB, 1, "Enterprise1"),
    Host("User3", _USER, False, (80, 443, 25, 3389), _WEB | _MAIL, 1, "Enterprise0"),
    Host("User4", _USER, False, (22, 80, 443, 25, 3390), _LOGIN | _WEB | _MAIL | _SQL, 1, "Enterprise0"),
)
NUM_HOSTS = len(HOSTS)
NAMES = tuple(host.name for host in HOSTS)
OP_SERVER, FOOTHOLD = (NAMES.index(name) for name in ("Op_Server0", "User0"))
GATES = tuple(
    h for h, name in enumerate(NAMES) if name.startswith("Enterprise")
)  # a session there opens the operational subnet
REVEALS = {h: NAMES.index(host.reveals) for h, host in enumerate(HOSTS) if host.reveals}
BY_SUBNET = {subnet: tuple(h for h, host in enumerate(HOSTS) if host.subnet is subnet) for subnet in Subnet}
DOWN_COST = 100  # tenths, in every step that ends while the OT service does not run
RESTORE_COST = 10

# -- ports, exploits and decoys --

PORTS = (21, 22, 25, 80, 139, 443, 3389, 3390, 53, 68, 135, 445)  # the bits of a set of ports
ALERT_PORT = 4444  # an alert looks like one more connection
BRUTE_FORCE_EVENTS = 10  # connections that guess passwords; a login adds one


@dataclass(frozen=True)
class Attempt:
    """An exploit that Red tries if it remembers `port` and, if there are any, one of `also`."""

    exploit: Exploit
    port: int
    also: tuple[int, ...] = ()


RANKING = (  # the first that is possible is Red's favourite
    Attempt(Exploit.FTP_TRAVERSAL, 21),
    Attempt(Exploit.HARAKA_RCE, 25),
    Attempt(Exploit.SQL_INJECTION, 3390, (80, 443)),
    Attempt(Exploit.HTTPS_RFI, 443),
    Attempt(Exploit.HTTP_RFI, 80),
    Attempt(Exploit.ETERNAL_BLUE, 139),
    Attempt(Exploit.BLUE_KEEP, 3389),
    Attempt(Exploit.SSH_BRUTE_FORCE, 22),
)
FAVOURITE_IN = 4  # the favourite is not taken once in so many choices (0.75)
ALERT_IN = 20  # a reverse shell raises no alert once in so many (0.95)


@dataclass(frozen=True)
class Decoy:
    """`checked` must be free for it; then it listens on `opened` and catches `catches`."""

    name: str
    checked: int
    opened: int
    systems: str  # any, windows or linux
    catches: Exploit

    def fits(self, host: Host) -> bool:
        return self.systems == "any" or (self.systems == "windows") == host.windows


DECOYS = (
    Decoy("Apache", 80, 80, "any", Exploit.HTTP_RFI),
    Decoy("Femitter", 21, 21, "windows", Exploit.FTP_TRAVERSAL),
    Decoy("HarakaSMPT", 25, 25, "linux", Exploit.HARAKA_RCE),
    Decoy("Smss", 139, 139, "windows", Exploit.ETERNAL_BLUE),
    Decoy("SSHD", 22, 22, "any", Exploit.SSH_BRUTE_FORCE),
    Decoy("Svchost", 3389, 3389, "windows", Exploit.BLUE_KEEP),
    Decoy("Tomcat", 443, 443, "any", Exploit.HTTPS_RFI),
    Decoy("Vsftpd", 21, 80, "linux", Exploit.HTTP_RFI),  # so it can be stacked, and stand beside Apache
)
NUM_DECOYS = len(DECOYS)

# -- actions --


class Success(IntEnum):
    NO = 0
    YES = 1
    UNKNOWN = 2


class BlueKind(IntEnum):
    SLEEP = 0
    MONITOR = 1
    ANALYSE = 2
    REMOVE = 3
    DECOY = 4
    RESTORE = 5


class RedKind(IntEnum):
    SLEEP = 0
    SWEEP = 1  # DiscoverRemoteSystems
    SCAN = 2  # DiscoverNetworkServices
    EXPLOIT = 3  # ExploitRemoteService
    ESCALATE = 4  # PrivilegeEscalate
    IMPACT = 5


class RedAgent(IntEnum):
    SLEEP = 0
    B_LINE = 1
    MEANDER = 2


SUBNET_TARGET = NUM_HOSTS  # targets: a host, or this + a subnet
NO_TARGET = -1


@dataclass(frozen=True)
class Attack:
    """What Red has decided to do."""

    kind: RedKind = RedKind.SLEEP
    target: int = NO_TARGET


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    success: Success = Success.UNKNOWN
    exploit: Exploit = Exploit.NONE
    detected: bool | None = None  # whether a new reverse shell raised an alert; None: there is none
    escalated: int = 0  # the kind of session that became privileged
    events: tuple[int, ...] = field(default=())  # local ports of the connections that the target noticed

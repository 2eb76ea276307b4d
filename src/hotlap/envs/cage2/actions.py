"""Blue's actions: the 145 of the challenge, and smaller sets of them.

- `all`, 145, as the challenge numbers them: 0 Sleep; 1 Monitor; 2 + h Analyse; 15 + h Remove; 28 + 13 d + h decoy d; 132 + h
  Restore.
- `distinct`, 81: those of `all` that can do something, in the same order. Without Monitor, which equals Sleep, and without the
  decoys that a host never accepts.
- `merged`, 52: Sleep, Analyse, Remove, one decoy action for each host that has a useful decoy, Restore.

A merged decoy action places the first decoy of the host's list whose port is free. Lists are ordered by the exploit that is
caught, Red's favourite first. Vsftpd is in none: it opens Apache's port, or, where a web server runs, catches nothing. When all
decoys of a list run, the action does nothing.
"""

from dataclasses import dataclass

from hotlap.envs.cage2.network import Network
from hotlap.envs.cage2.scenario import DECOYS, NAMES, NUM_DECOYS, NUM_HOSTS, RANKING, BlueKind

NO_HOST = -1
VSFTPD = [decoy.name for decoy in DECOYS].index("Vsftpd")


@dataclass(frozen=True)
class Command:
    """What one action does. Of `decoys`, the first that the host accepts is placed."""

    kind: BlueKind
    host: int = NO_HOST
    decoys: tuple[int, ...] = ()

    def __str__(self) -> str:
        names = " or ".join(DECOYS[decoy].name for decoy in self.decoys)
        host = "" if self.host == NO_HOST else f" {NAMES[self.host]}"
        return f"{names} on{host}" if names else f"{self.kind.name.capitalize()}{host}"


def _each_host(kind: BlueKind) -> list[Command]:
    return [Command(kind, host) for host in range(NUM_HOSTS)]


def _challenge() -> tuple[Command, ...]:
    decoys = [Command(BlueKind.DECOY, host, (decoy,)) for decoy in range(NUM_DECOYS) for host in range(NUM_HOSTS)]
    idle = [Command(BlueKind.SLEEP), Command(BlueKind.MONITOR)]
    return (
        *idle,
        *_each_host(BlueKind.ANALYSE),
        *_each_host(BlueKind.REMOVE),
        *decoys,
        *_each_host(BlueKind.RESTORE),
    )


ALL = _challenge()


def _distinct() -> tuple[Command, ...]:
    untouched = Network()
    possible = [command for command in ALL if all(untouched.accepts(decoy, command.host) for decoy in command.decoys)]
    return tuple(command for command in possible if command.kind is not BlueKind.MONITOR)


def _merged() -> tuple[Command, ...]:
    rank = [next(n for n, attempt in enumerate(RANKING) if attempt.exploit is decoy.catches) for decoy in DECOYS]
    untouched, decoys = Network(), []
    for host in range(NUM_HOSTS):
        fitting = [decoy for decoy in range(NUM_DECOYS) if decoy != VSFTPD and untouched.accepts(decoy, host)]
        if fitting:
            decoys.append(Command(BlueKind.DECOY, host, tuple(sorted(fitting, key=lambda decoy: rank[decoy]))))
    single = [command for command in ALL if command.kind in (BlueKind.SLEEP, BlueKind.ANALYSE, BlueKind.REMOVE)]
    return (*single, *decoys, *_each_host(BlueKind.RESTORE))


SETS = {"all": ALL, "distinct": _distinct(), "merged": _merged()}


class Translator:
    """Turns the actions of a set into those of the challenge, one episode long, for a simulator elsewhere.

    It remembers which decoys Blue has placed; nothing else has to be known for that.
    """

    def __init__(self, name: str) -> None:
        self._commands = SETS[name]
        self.reset()

    def reset(self) -> None:
        self._placed = Network()

    def translate(self, action: int) -> int:
        command = self._commands[action]
        if command.kind is BlueKind.RESTORE:
            self._placed.restore(command.host)
        if command.kind is not BlueKind.DECOY:
            return ALL.index(command)
        for decoy in command.decoys:
            if self._placed.place(decoy, command.host):
                return ALL.index(Command(BlueKind.DECOY, command.host, (decoy,)))
        return ALL.index(Command(BlueKind.DECOY, command.host, command.decoys[:1]))  # which fails, too

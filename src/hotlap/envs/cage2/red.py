"""The red agents of the challenge. `decide` looks at what came of the last attack, and names the next."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from hotlap.envs.cage2.chance import Chance
from hotlap.envs.cage2.network import Knowledge
from hotlap.envs.cage2.scenario import (
    BY_SUBNET,
    GATES,
    NAMES,
    OP_SERVER,
    REVEALS,
    SUBNET_TARGET,
    Attack,
    RedAgent,
    RedKind,
    Subnet,
    Success,
)


class Red(Protocol):
    number: RedAgent

    def decide(self, last: Attack, success: Success, knowledge: Knowledge, chance: Chance) -> Attack: ...


class Sleeper:
    """Does nothing."""

    number = RedAgent.SLEEP

    def decide(self, last: Attack, success: Success, knowledge: Knowledge, chance: Chance) -> Attack:
        return Attack()


# -- B_line --

CHOSEN_USER, CHOSEN_ENTERPRISE = -2, -3  # targets of stages: the hosts that it has chosen


@dataclass(frozen=True)
class Stage:
    kind: RedKind
    target: int
    fallback: int  # the stage after a failure


def _script() -> tuple[Stage, ...]:
    second = NAMES.index("Enterprise2")
    user, enterprise = (SUBNET_TARGET + subnet for subnet in (Subnet.USER, Subnet.ENTERPRISE))
    return (
        Stage(RedKind.SWEEP, user, 0),
        Stage(RedKind.SCAN, CHOSEN_USER, 1),
        Stage(RedKind.EXPLOIT, CHOSEN_USER, 2),
        Stage(RedKind.ESCALATE, CHOSEN_USER, 2),
        Stage(RedKind.SCAN, CHOSEN_ENTERPRISE, 2),
        Stage(RedKind.EXPLOIT, CHOSEN_ENTERPRISE, 2),
        Stage(RedKind.ESCALATE, CHOSEN_ENTERPRISE, 5),
        Stage(RedKind.SWEEP, enterprise, 5),
        Stage(RedKind.SCAN, second, 5),
        Stage(RedKind.EXPLOIT, second, 5),
        Stage(RedKind.ESCALATE, second, 9),
        Stage(RedKind.SCAN, OP_SERVER, 9),
        Stage(RedKind.EXPLOIT, OP_SERVER, 9),
        Stage(RedKind.ESCALATE, OP_SERVER, 12),
        Stage(RedKind.IMPACT, OP_SERVER, 13),
    )


SCRIPT = _script()
CHOOSE_USER, CHOOSE_ENTERPRISE, ATTACK_OP_SERVER = 1, 4, 12  # stages
USER_CHOICES = BY_SUBNET[Subnet.USER][1:]


class BLine:
    """Goes straight for Op_Server0: a script, with a stage to fall back to for each that fails.

    If Op_Server0 is to be exploited for the first time but its scan has found nothing, as the subnet was closed, it scans its
    User host again.
    """

    number = RedAgent.B_LINE

    def __init__(self) -> None:
        self.stage = 0
        self.reached: set[int] = set()
        self.user: int | None = None
        self.enterprise: int | None = None

    def decide(self, last: Attack, success: Success, knowledge: Knowledge, chance: Chance) -> Attack:
        if success is Success.YES:
            self.stage = min(self.stage + 1, len(SCRIPT) - 1)
        else:
            self.stage = SCRIPT[self.stage].fallback
        if self.stage == ATTACK_OP_SERVER and self.stage not in self.reached and knowledge.ports[OP_SERVER] is None:
            self.stage = CHOOSE_USER
        if self.stage == CHOOSE_USER and self.user is None:
            self.user = chance.host(USER_CHOICES)
        if self.stage == CHOOSE_ENTERPRISE and self.enterprise is None and self.user is not None:
            self.enterprise = REVEALS[self.user]
        self.reached.add(self.stage)
        step = SCRIPT[self.stage]
        chosen = {CHOSEN_USER: self.user, CHOSEN_ENTERPRISE: self.enterprise}.get(step.target)
        return Attack(step.kind, step.target if chosen is None else chosen)


# -- Meander --


@dataclass
class Meander:
    """Wanders through the network: takes whatever it has not taken yet, in random order, until it holds Op_Server0."""

    number = RedAgent.MEANDER

    swept: set[int] = field(default_factory=set)  # subnets
    scanned: set[int] = field(default_factory=set)
    exploited: set[int] = field(default_factory=set)
    escalated: set[int] = field(default_factory=set)
    mapped: set[int] = field(default_factory=set)  # exploited with success, once at least

    def decide(self, last: Attack, success: Success, knowledge: Knowledge, chance: Chance) -> Attack:
        self._digest(last, success)
        if OP_SERVER in self.escalated:
            return Attack(RedKind.IMPACT, OP_SERVER)
        if unswept := sorted(knowledge.subnets - self.swept):
            self.swept.add(unswept[0])
            return Attack(RedKind.SWEEP, SUBNET_TARGET + unswept[0])
        lost = self.mapped - self.exploited
        return (
            self._one_of(RedKind.SCAN, knowledge.addresses - self.scanned, self.scanned, chance)
            or self._one_of(RedKind.ESCALATE, knowledge.names - self.escalated - lost, self.escalated, chance)
            or self._one_of(RedKind.EXPLOIT, knowledge.addresses - self.exploited, self.exploited, chance)
            or Attack()  # where the original raises an error; no such case is known
        )

    def _one_of(self, kind: RedKind, candidates: Collection[int], noted: set[int], chance: Chance) -> Attack | None:
        if not candidates:
            return None
        host = chance.host(sorted(candidates))
        noted.add(host)
        return Attack(kind, host)

    def _digest(self, last: Attack, success: Success) -> None:
        if last.kind is RedKind.EXPLOIT and success is Success.YES:
            self.mapped.add(last.target)
        elif last.kind is RedKind.EXPLOIT:
            self.exploited.discard(last.target)
            operational = set(BY_SUBNET[Subnet.OPERATIONAL])
            forgotten = operational if self.escalated & operational else set(GATES)
            self.escalated -= forgotten
            self.exploited -= forgotten
        elif last.kind in (RedKind.ESCALATE, RedKind.IMPACT) and success is not Success.YES:
            self.escalated.discard(last.target)
            if last.target in self.mapped:
                self.exploited.discard(last.target)


AGENTS: dict[RedAgent, type[Red]] = {kind.number: kind for kind in (Sleeper, BLine, Meander)}

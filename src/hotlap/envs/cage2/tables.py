"""What the kernel reads: the scenario, the action set, and what can differ between environments, as arrays and macros."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.cage2 import history, truth
from hotlap.envs.cage2.actions import Command
from hotlap.envs.cage2.chance import Recorded
from hotlap.envs.cage2.red import ATTACK_OP_SERVER, CHOOSE_ENTERPRISE, CHOOSE_USER, CHOSEN_ENTERPRISE, CHOSEN_USER, SCRIPT
from hotlap.envs.cage2.scenario import (
    ALERT_IN,
    BRUTE_FORCE_EVENTS,
    BY_SUBNET,
    DECOYS,
    DOWN_COST,
    FAVOURITE_IN,
    FOOTHOLD,
    GATES,
    HOSTS,
    NO_TARGET,
    NUM_DECOYS,
    NUM_HOSTS,
    OP_SERVER,
    RANKING,
    RESTORE_COST,
    REVEALS,
    SUBNET_TARGET,
    BlueKind,
    Gain,
    RedAgent,
    RedKind,
    Session,
    Subnet,
    Success,
)
from hotlap.envs.cage2.truth import bits, port_bits
from hotlap.envs.cage2.view import MANY, SCAN_INPUTS
from hotlap.envs.spec import Table

MAX_REDS = 6  # agents that one environment draws from
SETTINGS = 2 + MAX_REDS
NO_DECOY = 255  # the end of a command's list
HOST_FIELDS = 4  # ports, sockets, decoys that fit, addresses learnt by escalating; then what each exploit gains
ATTEMPT_FIELDS = 4  # number, port, ports of which it needs one, decoys that catch it
DECOY_FIELDS = 2  # port checked, port opened
COMMAND_FIELDS = 2 + NUM_DECOYS + 1  # kind, host, decoys


def declared(commands: Sequence[Command], outcomes: int) -> tuple[Table, ...]:
    """`outcomes`: how many steps of recorded outcomes there are, 0: none."""
    replayed = (Table("outcomes", "<i2", (outcomes, len(Recorded._fields))),) if outcomes else ()
    return (
        Table("hosts", "<u2", (NUM_HOSTS, HOST_FIELDS + len(RANKING))),
        Table("attempts", "<u2", (len(RANKING), ATTEMPT_FIELDS)),
        Table("decoys", "<u2", (NUM_DECOYS, DECOY_FIELDS)),
        Table("placeable", "|u1", (len(history.PLACEABLE), 2)),
        Table("times", "|u1", (len(history.TIMES),)),
        Table("script", "|i1", (len(SCRIPT), 3)),
        Table("commands", "|u1", (len(commands), COMMAND_FIELDS)),
        Table("settings", "|u1", (SETTINGS,)),
        *replayed,
    )


def scenario(commands: Sequence[Command]) -> dict[str, NDArray[Any]]:
    """The tables that all environments share."""
    hosts = [
        [
            port_bits(host.sockets),
            len(host.sockets),
            bits(d for d, decoy in enumerate(DECOYS) if decoy.fits(host)),
            bits({h, REVEALS.get(h, h)}),
            *(host.services.get(attempt.exploit, Gain.NOTHING) for attempt in RANKING),
        ]
        for h, host in enumerate(HOSTS)
    ]
    attempts = [
        [
            attempt.exploit,
            port_bits([attempt.port]),
            port_bits(attempt.also),
            bits(d for d, decoy in enumerate(DECOYS) if decoy.catches is attempt.exploit),
        ]
        for attempt in RANKING
    ]
    decoys = [[port_bits([decoy.checked]), port_bits([decoy.opened])] for decoy in DECOYS]
    orders = [
        [each.kind, max(each.host, 0), *each.decoys] + [NO_DECOY] * (NUM_DECOYS + 1 - len(each.decoys)) for each in commands
    ]
    return {
        "hosts": np.array(hosts, np.uint16),
        "attempts": np.array(attempts, np.uint16),
        "decoys": np.array(decoys, np.uint16),
        "placeable": np.array(history.PLACEABLE, np.uint8),
        "times": np.array(history.TIMES, np.uint8),
        "script": np.array([[stage.kind, stage.target, stage.fallback] for stage in SCRIPT], np.int8),
        "commands": np.array(orders, np.uint8),
    }


@dataclass(frozen=True)
class Settings:
    """What each environment can have differently: steps of an episode, and the agents that a start draws from."""

    episode_length: int
    reds: tuple[RedAgent, ...]

    def table(self) -> NDArray[np.uint8]:
        """Length, how many agents there are, which."""
        unused = [0] * (MAX_REDS - len(self.reds))
        return np.array([self.episode_length, len(self.reds), *self.reds, *unused], np.uint8)

    @classmethod
    def read(cls, table: NDArray[Any]) -> "Settings":
        length, count, *reds = table.tolist()
        return cls(length, tuple(RedAgent(agent) for agent in reds[:count]))


def constants() -> dict[str, int | float]:
    """Single numbers for the kernel, as C macros."""
    enums = {"BLUE": BlueKind, "RED": RedKind, "AGENT": RedAgent, "GAIN": Gain, "SESSION": Session, "SUCCESS": Success}
    named = {f"{prefix}_{item.name}": int(item) for prefix, enum in enums.items() for item in enum}
    costs = {f"COST_{cost}": bits(h for h, host in enumerate(HOSTS) if host.cost == cost) for cost in (1, 10)}
    subnets = {f"{subnet.name}_HOSTS": bits(hosts) for subnet, hosts in BY_SUBNET.items()}
    return {
        **named,
        **costs,
        **subnets,
        "ENTERPRISE": int(Subnet.ENTERPRISE),
        "OPERATIONAL": int(Subnet.OPERATIONAL),
        "USER": int(Subnet.USER),
        "HOSTS": NUM_HOSTS,
        "OP_SERVER": OP_SERVER,
        "FOOTHOLD": FOOTHOLD,
        "GATES": bits(GATES),
        "USERS": bits(BY_SUBNET[Subnet.USER]) - bits([FOOTHOLD]),
        "SUBNET_TARGET": SUBNET_TARGET,
        "NO_TARGET": NO_TARGET,
        "DECOYS": NUM_DECOYS,
        "NO_DECOY": NO_DECOY,
        "ATTEMPTS": len(RANKING),
        "FAVOURITE_IN": FAVOURITE_IN,
        "ALERT_IN": ALERT_IN,
        "BRUTE_FORCE_EVENTS": BRUTE_FORCE_EVENTS,
        "COMMAND_FIELDS": COMMAND_FIELDS,
        "STAGES": len(SCRIPT),
        "CHOSEN_USER": CHOSEN_USER,
        "CHOSEN_ENTERPRISE": CHOSEN_ENTERPRISE,
        "CHOOSE_USER": CHOOSE_USER,
        "CHOOSE_ENTERPRISE": CHOOSE_ENTERPRISE,
        "ATTACK_OP_SERVER": ATTACK_OP_SERVER,
        "DOWN_COST": DOWN_COST,
        "RESTORE_COST": RESTORE_COST,
        "MANY": MANY,
        "SCAN_INPUTS": bits(SCAN_INPUTS),
        "SCANNED": truth.SCANNED,
        "NOT_CREATED": truth.NOT_CREATED,
        "UNUSED": truth.UNUSED,
        "PLACEABLE": len(history.PLACEABLE),
        "RECENT": history.RECENT,
        "HISTORY_BITS": history.SIZE,
        "NUM_TIMES": len(history.TIMES),
        "KINDS_DONE": len(history.DONE),
    }

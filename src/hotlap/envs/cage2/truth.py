"""The whole true state as one vector of whole numbers, in the form of the recordings of CybORG (tests/data/cage2).

It is what `observation="truth"` shows, so that references, kernels and recordings are compared array by array, and what a
checkpoint of the reference keeps: a state can be made from it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.cage2.network import HostState
from hotlap.envs.cage2.red import BLine, Meander
from hotlap.envs.cage2.scenario import (
    NO_TARGET,
    NUM_DECOYS,
    NUM_HOSTS,
    PORTS,
    Attack,
    Exploit,
    Outcome,
    RedKind,
    Session,
    Success,
)

if TYPE_CHECKING:
    from hotlap.envs.cage2.reference import Cage2

FIELDS: dict[str, tuple[int, ...]] = {  # in this order; as the recordings have them
    "blue_success": (),
    "red_action": (),
    "red_target": (),
    "red_exploit": (),
    "red_success": (),
    "red_detected": (),
    "red_escalated": (),
    "red_stage": (),
    "n_events": (NUM_HOSTS,),
    "obs": (4 * NUM_HOSTS,),
    "access": (NUM_HOSTS,),
    "sessions": (NUM_HOSTS, len(Session)),
    "malware": (NUM_HOSTS,),
    "decoys": (NUM_HOSTS, NUM_DECOYS),
    "ports": (NUM_HOSTS,),
    "red_ports": (NUM_HOSTS,),
    "red_known": (NUM_HOSTS,),
    "red_subnets": (),
    "ot": (),
    "bline": (4,),
    "meander": (7,),
}
SIZE = sum(prod(shape) for shape in FIELDS.values())
SCANNED = 1 << 15  # in `red_ports`: there was a scan that found something
NOT_CREATED = 255  # in `red_detected`: no reverse shell in this step
UNUSED = -1  # memories of other agents
LOWEST, HIGHEST = -1, SCANNED * 2 - 1


def bits(members: Iterable[int]) -> int:
    return sum(1 << member for member in set(members))


def members(mask: int) -> set[int]:
    return {bit for bit in range(mask.bit_length()) if mask >> bit & 1}


def port_bits(ports: Iterable[int]) -> int:
    return bits(PORTS.index(port) for port in ports)


def split(vectors: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The fields of vectors [..., SIZE]."""
    parts = np.split(vectors, np.cumsum([prod(shape) for shape in FIELDS.values()])[:-1], -1)
    return {
        name: part.reshape((*vectors.shape[:-1], *shape)) for (name, shape), part in zip(FIELDS.items(), parts, strict=True)
    }


def encode(game: Cage2) -> list[int]:
    network, known, outcome = game.network, game.knowledge, game.outcome
    fields: dict[str, Any] = {
        "blue_success": game.blue_success,
        "red_action": game.attack.kind,
        "red_target": game.attack.target,
        "red_exploit": outcome.exploit,
        "red_success": outcome.success,
        "red_detected": NOT_CREATED if outcome.detected is None else outcome.detected,
        "red_escalated": outcome.escalated,
        "red_stage": game.red.stage if isinstance(game.red, BLine) and game.steps else UNUSED,
        "n_events": game.entries,
        "obs": game.view.table(),
        "access": [2 if host.sessions[Session.PRIVILEGED] else int(any(host.sessions)) for host in network.hosts],
        "sessions": [count for host in network.hosts for count in host.sessions],
        "malware": [host.files for host in network.hosts],
        "decoys": [count for host in network.hosts for count in host.decoys],
        "ports": [port_bits(network.sockets(h)) for h in range(NUM_HOSTS)],
        "red_ports": [0 if ports is None else SCANNED | port_bits(ports) for ports in known.ports],
        "red_known": [(h in known.addresses) | (h in known.names) << 1 | (h in known.systems) << 2 for h in range(NUM_HOSTS)],
        "red_subnets": bits(known.subnets),
        "ot": network.ot_running | network.ot_active << 1 | network.ot_has_process << 2 | known.ot_service << 3,
        "bline": _b_line(game.red) if isinstance(game.red, BLine) else [UNUSED] * 4,
        "meander": _meander(game.red, game.attack) if isinstance(game.red, Meander) else [UNUSED] * 7,
    }
    return [int(number) for name in FIELDS for number in (fields[name] if FIELDS[name] else [fields[name]])]


def _b_line(red: BLine) -> list[int]:
    chosen = [NO_TARGET if host is None else host for host in (red.user, red.enterprise)]
    return [red.stage, bits(red.reached), *chosen]


def _meander(red: Meander, last: Attack) -> list[int]:
    """Its five sets, then the host that it escalated or impacted last, if that was the last attack, and that it exploited."""
    escalated = last.target if last.kind in (RedKind.ESCALATE, RedKind.IMPACT) else NO_TARGET
    exploited = last.target if last.kind is RedKind.EXPLOIT else NO_TARGET
    sets = [bits(each) for each in (red.swept, red.scanned, red.exploited, red.escalated, red.mapped)]
    return [*sets, escalated, exploited]


def decode(game: Cage2, numbers: Sequence[int]) -> None:
    """Bring a game, whose agent is the right one already, to a state."""
    now = {name: values.tolist() for name, values in split(np.array(numbers)).items()}
    network, known = game.network, game.knowledge
    game.blue_success, game.entries = Success(now["blue_success"]), now["n_events"]
    game.attack = Attack(RedKind(now["red_action"]), now["red_target"])
    detected = None if now["red_detected"] == NOT_CREATED else bool(now["red_detected"])
    game.outcome = Outcome(Success(now["red_success"]), Exploit(now["red_exploit"]), detected, now["red_escalated"])
    game.view.read_table(now["obs"])
    network.hosts = [HostState(*parts) for parts in zip(now["sessions"], now["malware"], now["decoys"], strict=True)]
    network.ot_running, network.ot_active, network.ot_has_process, known.ot_service = (
        bool(now["ot"] >> bit & 1) for bit in range(4)
    )
    known.addresses, known.names, known.systems = (
        {h for h in range(NUM_HOSTS) if now["red_known"][h] >> bit & 1} for bit in range(3)
    )
    known.subnets = members(now["red_subnets"])
    known.ports = [
        {port for bit, port in enumerate(PORTS) if mask >> bit & 1} if mask & SCANNED else None for mask in now["red_ports"]
    ]
    if isinstance(game.red, BLine):
        game.red.stage, game.red.reached = now["bline"][0], members(now["bline"][1])
        game.red.user, game.red.enterprise = (None if host == NO_TARGET else host for host in now["bline"][2:])
    if isinstance(game.red, Meander):
        sets = [members(mask) for mask in now["meander"][:5]]
        game.red.swept, game.red.scanned, game.red.exploited, game.red.escalated, game.red.mapped = sets

"""How a state looks: the hosts by subnet, Red's real access beside what Blue believes, and what both sides did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotlap.envs.cage2.red import BLine
from hotlap.envs.cage2.scenario import (
    BY_SUBNET,
    DECOYS,
    FOOTHOLD,
    NAMES,
    SUBNET_TARGET,
    BlueKind,
    RedKind,
    Session,
    Subnet,
    Success,
)
from hotlap.envs.cage2.view import Activity, Compromise
from hotlap.envs.picture import Picture

if TYPE_CHECKING:
    from hotlap.envs.cage2.reference import Cage2

Line = list[tuple[str, str]]
ORDER = (Subnet.USER, Subnet.ENTERPRISE, Subnet.OPERATIONAL)  # as Red comes
ATTACKS = ("sleeps", "sweeps", "scans", "exploits", "escalates on", "impacts")
RESULTS = {Success.NO: (" fails", "dim"), Success.YES: (" works", "bold"), Success.UNKNOWN: ("", "")}
SEEN = {Activity.NONE: ("", ""), Activity.SCAN: ("scan", "yellow"), Activity.EXPLOIT: ("exploit", "bold yellow")}
BELIEVED = {
    Compromise.NO: ("", ""),
    Compromise.UNKNOWN: ("unknown", "yellow"),
    Compromise.USER: ("user", "yellow"),
    Compromise.PRIVILEGED: ("privileged", "bold yellow"),
}


def draw(game: Cage2) -> Picture:
    lines: Picture = [_heading(game), _blue(game), _red(game), []]
    lines.append([(f"{'':<15}{'Red has':<12}{'Blue saw':<10}{'Blue believes':<15}decoys", "dim")])
    for subnet in ORDER:
        lines.append([(subnet.name.lower(), "bold"), *_gate(game, subnet)])
        lines += [_host(game, h) for h in BY_SUBNET[subnet]]
    return lines


def _heading(game: Cage2) -> Line:
    red = game.red.number.name.lower()
    stage = f", stage {game.red.stage}" if isinstance(game.red, BLine) and game.steps else ""
    line: Line = [(f"step {game.steps} of {game.settings.episode_length}", "bold"), (f"   red: {red}{stage}", "")]
    reward = f"{-game.cost / 10:.1f}" if game.cost else "0"
    line.append((f"   reward {reward}", "red" if game.cost else ""))
    return line if game.network.ot_running else [*line, ("   OT service is down", "bold red")]


def _blue(game: Cage2) -> Line:
    line: Line = [("Blue  ", "bold blue")]
    if game.blue_action is None:
        return [*line, ("-", "dim")]
    command = game.commands[game.blue_action]
    return [*line, (str(command), "blue"), RESULTS[game.blue_success] if command.kind is BlueKind.DECOY else ("", "")]


def _red(game: Cage2) -> Line:
    line: Line = [("Red   ", "bold red")]
    if game.steps == 0:
        return [*line, ("-", "dim")]
    target = game.attack.target
    place = f"the {Subnet(target - SUBNET_TARGET).name.lower()} subnet" if target >= SUBNET_TARGET else NAMES[target]
    line.append((ATTACKS[game.attack.kind] + (f" {place}" if game.attack.kind else ""), "red"))
    if game.attack.kind is RedKind.EXPLOIT and game.outcome.exploit:
        line.append((f" by {game.outcome.exploit.name.lower()}", "red"))
    return [*line, RESULTS[game.outcome.success]]


def _gate(game: Cage2, subnet: Subnet) -> Line:
    if subnet is not Subnet.OPERATIONAL:
        return []
    return [("   open", "red") if game.network.reachable(subnet) else ("   closed", "green")]


def _host(game: Cage2, h: int) -> Line:
    host = game.network.hosts[h]
    attacked = 0 <= game.attack.target == h
    access = (
        ("privileged", "bold red") if host.sessions[Session.PRIVILEGED] else ("user", "red") if any(host.sessions) else ("", "")
    )
    if h == FOOTHOLD:
        access = (access[0], "dim")
    seen, believed = SEEN[game.view.activity[h]], BELIEVED[game.view.compromise[h]]
    decoys = " ".join(
        decoy.name + (f" x{count}" if count > 1 else "") for decoy, count in zip(DECOYS, host.decoys, strict=True) if count
    )
    return [
        ("> " if attacked else "  ", "bold red"),
        (f"{NAMES[h]:<13}", "bold" if attacked else ""),
        (f"{access[0]:<12}", access[1]),
        (f"{seen[0]:<10}", seen[1]),
        (f"{believed[0]:<15}", believed[1]),
        (decoys, "blue"),
    ]

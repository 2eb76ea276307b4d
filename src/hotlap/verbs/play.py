"""hotlap play: a person at the keyboard.

A game declares how: `parse_action(text)` for moves that are typed, one in each turn
(`draw_for(seat)` and `hides_moves` where seats do not see everything); `action_of_key(key)` for arrow keys, while time goes on.
Without a terminal (a pipe, a test) games with keys wait for a line of letters instead.
"""

import math
import time
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console

from hotlap.core.errors import UsageError
from hotlap.record.episodes import EnvSource
from hotlap.verbs.output import Switch, print_json


@dataclass(frozen=True)
class Play:
    """Play a game at the keyboard, against a trained policy or a bot.

    Example: hotlap play connect4

    Example: hotlap play connect4 --against latest --seat 2

    Example: hotlap play snake --fps 6
    """

    system: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SYSTEM")]
    """Which game: a system (see `hotlap systems`)."""
    against: str | None = None
    """Games of several seats: who plays the others. A training run (folder, id or "latest"), or a bot such as random; the
    game's best bot if not given."""
    seat: int = 1
    """Your seat; seat 1 begins."""
    seed: int | None = None
    """Same seed, same game; another one each time if not given."""
    fps: float | None = None
    """Steps per second, in games that go on by themselves."""
    json: Switch = False
    """Print one JSON document when the game is over; the game itself goes to stderr."""


def play(args: Play) -> int:
    from hotlap import systems
    from hotlap.systems import configs
    from hotlap.systems.simulation import make_single
    from hotlap.verbs.playing import run_on, take_turns

    if args.fps is not None and not (math.isfinite(args.fps) and args.fps > 0):
        raise UsageError(f"--fps must be above 0, not {args.fps:g}")
    seed = args.seed if args.seed is not None else time.time_ns() % 2**31
    if seed < 0:
        raise UsageError(f"--seed must be at least 0, not {seed}")
    system = configs.system(args.system)
    game = make_single(EnvSource(system.game) if system.game else EnvSource("", system.gym))
    console = Console(stderr=args.json, highlight=False)
    if hasattr(game, "parse_action"):
        outcome = take_turns(game, args, seed, console)
    elif hasattr(game, "action_of_key"):
        outcome = run_on(game, args, seed, console)
    else:
        playable = [name for name in systems.names() if _playable(name)]
        raise UsageError(f"{args.system} cannot be played at the keyboard; these can: {', '.join(playable)}")
    if args.json:
        print_json(outcome)
    return 0


def _playable(name: str) -> bool:
    from hotlap import systems
    from hotlap.envs import load_game

    system = systems.load(name)
    kind = load_game(system.game) if system.game else None
    return hasattr(kind, "parse_action") or hasattr(kind, "action_of_key")

"""A person plays a game at the keyboard: typed moves in turns, or keys while time goes on."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live

from hotlap.core.errors import RecordError, UsageError
from hotlap.envs.spec import EnvSpec
from hotlap.record.run import find, load
from hotlap.report.replay import styled
from hotlap.verbs.keyboard import key_of, raw_keys
from hotlap.verbs.play import Play

SCHEMA = "hotlap.play/1"
Opponent = Callable[[Any, Any], int]  # the action for an observation and a mask


@dataclass(frozen=True)
class Outcome:
    """What `hotlap play --json` prints."""

    schema: str
    system: str
    seed: int
    seat: int
    against: str | None
    actions: tuple[int, ...]
    returns: tuple[float, ...]
    over: bool  # whether the game was played to its end


class Quit(Exception):
    """The person has had enough."""


# -- games of turns --


def take_turns(game: Any, args: Play, seed: int, console: Console) -> Outcome:
    """A game of turns, against a bot or a policy."""
    seats = EnvSpec.of(game).seats
    if not 1 <= args.seat <= seats:
        raise UsageError(f"--seat must be from 1 to {seats}, not {args.seat}")
    name, opponent = _opponent(game, args, seed)
    yours = args.seat - 1
    console.print(f"You are seat {args.seat} of {seats}, against {name}. Type your move and Enter; ? shows help, q quits.")
    obs, info = game.reset(seed=seed)
    actions: list[int] = []
    returns, over = np.zeros(seats), False
    try:
        while not over:
            seat, mask = int(info["seat"]), np.asarray(info["action_mask"], bool)
            if seat == yours:
                console.print()
                console.print(styled(game.draw_for(yours) if hasattr(game, "draw_for") else game.draw()))
                action = _ask(game, console)
            else:
                action = opponent(obs, mask)
                player = name if seats == 2 else f"seat {seat + 1} ({name})"
                hidden = getattr(game, "hides_moves", False)
                console.print(f"{player} plays {'face down' if hidden else game.describe_action(action)}")
            actions.append(action)
            obs, _, terminated, truncated, info = game.step(action)
            returns += info["rewards"]
            over = terminated or truncated
        console.print()
        console.print(styled(game.draw()))
        others = np.delete(returns, yours).max()
        console.print("You win." if returns[yours] > others else "You lose." if returns[yours] < others else "A draw.")
    except Quit:
        console.print("\nThe game is left as it is.")
    return Outcome(SCHEMA, args.system, seed, args.seat, name, tuple(actions), tuple(returns.tolist()), bool(over))


def _ask(game: Any, console: Console) -> int:
    """The person's move: asked again until it is one."""
    while True:
        console.print("your move> ", end="")
        line = _line()
        if line.strip() in ("?", "help", "h"):
            legal = [game.describe_action(int(action)) for action in np.flatnonzero(game.mask())]
            console.print(f"You can play: {', '.join(legal)}. q quits.")
            continue
        try:
            return int(game.parse_action(line))
        except ValueError as error:
            console.print(f"{error}; ? shows help")


def _line() -> str:
    """A line that was typed; q or the end of the input ends the game."""
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line or line.strip().lower() in ("q", "quit", "exit"):
        raise Quit
    return line


def _opponent(game: Any, args: Play, seed: int) -> tuple[str, Opponent]:
    """Who plays the other seats, by name."""
    from hotlap.train.rating import bots_of

    bots = bots_of(game)
    name = args.against or list(bots)[-1]
    if name in bots:
        bot, rng = bots[name], np.random.default_rng(seed)
        return name, lambda obs, mask: int(bot(obs[None], mask[None], rng)[0])
    try:
        folder = find(name)
    except RecordError as error:
        raise UsageError(f"--against {name}: no bot ({', '.join(bots)}), and {error}") from None
    return folder.name, _policy(folder, args.system)


def _policy(folder: Path, system: str) -> Opponent:
    import hotlap

    trained = load(folder).header.target
    if trained != system:
        raise UsageError(f"--against {folder} is a policy for {trained}, not for {system}")
    policy = hotlap.load_policy(folder)
    return lambda obs, mask: int(policy.act(obs, mask))


# -- games that go on --


def run_on(game: Any, args: Play, seed: int, console: Console) -> Outcome:
    """A game of one seat that goes on by itself."""
    if args.against is not None or args.seat != 1:
        raise UsageError(f"{args.system} has one seat: leave out --against and --seat")
    fps = args.fps or float(game.metadata.get("render_fps") or 5) / 2
    game.reset(seed=seed)
    rounds = _with_keys if sys.stdin.isatty() and console.is_terminal else _with_lines
    actions: list[int] = []
    total, over = 0.0, False
    try:
        for key in rounds(game, console, fps):
            actions.append(game.action_of_key(key))
            _, reward, terminated, truncated, _ = game.step(actions[-1])
            total += reward
            if over := terminated or truncated:
                break
    except Quit:
        pass
    metrics = ", ".join(f"{name} {value:g}" for name, value in zip(EnvSpec.of(game).metrics, game.metrics(), strict=True))
    console.print(_shown(game))
    console.print(f"{'Over' if over else 'Left'} after {len(actions)} steps: {metrics}, return {total:.4g}")
    return Outcome(SCHEMA, args.system, seed, 1, None, tuple(actions), (total,), over)


def _shown(game: Any) -> Any:
    return styled(game.draw())


def _with_keys(game: Any, console: Console, fps: float) -> Iterator[str]:
    """A key for each tick of the clock; "" where none was pressed."""
    console.print("Arrow keys or W A S D steer, space pauses, q quits. Any of them starts.")
    with raw_keys() as wait, Live(_shown(game), console=console, auto_refresh=False, transient=True) as live:
        live.refresh()
        while not (key := wait(0.2)):
            pass
        while key != "quit":
            if key == "pause":
                while not (key := wait(0.2)):
                    pass
                key = "" if key == "pause" else key
                continue
            yield key
            live.update(_shown(game), refresh=True)
            key = wait(1 / fps)


def _with_lines(game: Any, console: Console, fps: float) -> Iterator[str]:
    """The keys of lines: each letter is a step, an empty line goes straight on."""
    console.print("Type W A S D to steer, several at once if you like, Enter alone to go straight on; q quits.")
    while True:
        console.print(_shown(game))
        console.print("keys> ", end="")
        for letter in _line().strip() or " ":
            key = key_of(letter)
            if key == "quit":
                return
            if letter != " " and key not in ("up", "down", "left", "right"):
                console.print(f"type W, A, S or D, not {letter!r}")
                break
            yield "" if letter == " " else key

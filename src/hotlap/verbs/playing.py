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
from hotlap.record.header import Verb
from hotlap.record.run import find, load
from hotlap.report.replay import styled
from hotlap.verbs.keyboard import key_of, raw_keys
from hotlap.verbs.play import Play

SCHEMA = "hotlap.play/1"


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


@dataclass(frozen=True)
class Opponent:
    """Who plays all seats but the person's."""

    name: str
    act: Callable[[Any, Any], int]  # the action for an observation and a mask


class Quit(Exception):
    """The person has had enough."""


# -- games of turns --


def take_turns(game: Any, args: Play, seed: int, console: Console) -> Outcome:
    """A game of turns, against a bot or a policy; alone, where there is one seat."""
    seats, yours = EnvSpec.of(game).seats, args.seat - 1
    if seats == 1:
        _check_alone(args)
    elif not 0 <= yours < seats:
        raise UsageError(f"--seat must be from 1 to {seats}, not {args.seat}")
    game, opponent = _opponent(game, args, seed) if seats > 1 else (game, None)
    against = f"You are seat {args.seat} of {seats}, against {opponent.name}. " if opponent else ""
    console.print(f"{against}Type your move and Enter; ? shows help, q quits.")
    obs, info = game.reset(seed=seed)
    actions: list[int] = []
    returns, over = np.zeros(seats), False
    try:
        while not over:
            if opponent is None or int(info["seat"]) == yours:
                console.print()
                console.print(styled(game.draw_for(yours) if hasattr(game, "draw_for") else game.draw()))
                action = _ask(game, console)
            else:
                action = opponent.act(obs, np.asarray(info["action_mask"], bool))
                player = opponent.name if seats == 2 else f"seat {int(info['seat']) + 1} ({opponent.name})"
                hidden = getattr(game, "hides_moves", False)
                console.print(f"{player} plays {'face down' if hidden else game.describe_action(action)}")
            actions.append(action)
            obs, reward, terminated, truncated, info = game.step(action)
            returns += info["rewards"] if seats > 1 else reward
            over = terminated or truncated
    except Quit:
        console.print("\nThe game is left as it is.")
    if over or seats == 1:
        console.print()
        console.print(styled(game.draw()))
        console.print(_result(returns, yours) if seats > 1 else _summary(game, len(actions), float(returns[0]), over))
    name = opponent.name if opponent else None
    return Outcome(SCHEMA, args.system, seed, args.seat, name, tuple(actions), tuple(returns.tolist()), bool(over))


def _result(returns: Any, yours: int) -> str:
    others = np.delete(returns, yours).max()
    return "You win." if returns[yours] > others else "You lose." if returns[yours] < others else "A draw."


def _summary(game: Any, steps: int, total: float, over: bool) -> str:
    """How a game of one seat went."""
    metrics = ", ".join(f"{name} {value:g}" for name, value in zip(EnvSpec.of(game).metrics, game.metrics(), strict=True))
    return f"{'Over' if over else 'Left'} after {steps} steps: {metrics}, return {total:.4g}"


def _check_alone(args: Play) -> None:
    if args.against is not None or args.seat != 1:
        raise UsageError(f"{args.system} has one seat: leave out --against and --seat")


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


def _opponent(game: Any, args: Play, seed: int) -> tuple[Any, Opponent]:
    """Who plays the other seats, and the game that they play: with the observations that a policy was trained on."""
    from hotlap.train.rating import bots_of

    bots = bots_of(game)
    name = args.against or list(bots)[-1]
    if name in bots:
        bot, rng = bots[name], np.random.default_rng(seed)
        return game, Opponent(name, lambda obs, mask: int(bot(obs[None], mask[None], rng)[0]))
    try:
        folder = find(name, (Verb.TRAIN,))
    except RecordError as error:
        raise UsageError(f"--against {name}: no bot ({', '.join(bots)}), and {error}") from None
    return _policy(folder, args.system)


def _policy(folder: Path, name: str) -> tuple[Any, Opponent]:
    import hotlap
    from hotlap.systems import configs
    from hotlap.systems.simulation import make_single

    trained = load(folder).header.target
    if trained != name:
        raise UsageError(f"--against {folder} is a policy for {trained}, not for {name}")
    system = configs.system(name, configs.saved_algorithm(str(folder)))
    game = make_single(system.source(configs.saved_config(system, str(folder))))
    policy = hotlap.load_policy(folder)
    return game, Opponent(folder.name, lambda obs, mask: int(policy.act(obs, mask)))


# -- games that go on --


def run_on(game: Any, args: Play, seed: int, console: Console) -> Outcome:
    """A game of one seat that goes on by itself."""
    _check_alone(args)
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
    console.print(_shown(game))
    console.print(_summary(game, len(actions), total, over))
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

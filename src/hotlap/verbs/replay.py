"""hotlap replay."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from hotlap.core.errors import UsageError
from hotlap.record import episodes
from hotlap.record.header import Verb
from hotlap.record.run import load
from hotlap.verbs.output import Switch, print_json, say, write

BY_RANK = ("best", "worst", "median")


@dataclass(frozen=True)
class Replay:
    """Show an episode of a training run's evaluation, step by step.

    Example: hotlap replay latest

    Example: hotlap replay latest --episode worst --fps 20

    Example: hotlap replay latest --episode 3 --format html

    Example: hotlap replay latest --list
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = "latest"
    """A training run's folder, its id, or "latest"."""
    episode: str = "best"
    """Its number, or best, worst or median."""
    format: Literal["terminal", "html"] = "terminal"
    """terminal, or html: one page with a scrubber, which needs no network."""
    fps: float | None = None
    """Steps per second; if not given, what suits the game."""
    list: Switch = False
    """List the episodes instead."""
    module: str | None = None
    """Import this module first: for environments that a module of yours registers."""
    output: Path | None = None
    """File for the page; if not given, one in the run's folder."""
    json: Switch = False
    """Print one JSON document: all frames as data, or with --list the episodes."""


def replay(args: Replay) -> int:
    if args.fps is not None and not (math.isfinite(args.fps) and args.fps > 0):
        raise UsageError(f"--fps must be above 0, not {args.fps:g}")
    run = load(args.run, (Verb.TRAIN,))
    kept = episodes.read(run.path)
    if args.list:
        return _list(kept, run.path, args.json)
    episode = chosen(kept, args.episode)

    from hotlap.report import replay as report
    from hotlap.report.sections import clean
    from hotlap.report.terminal import Output
    from hotlap.systems.simulation import play_again

    _import(kept.source.gym, args.module)
    played = play_again(kept.source, episode)
    if args.json:
        print_json(report.document_of(played, str(run.path)))
        return 0
    fps = args.fps or played.fps
    if args.format == "html":
        from hotlap.report.replay_html import as_html

        return write(args.output or run.path / "replay.html", as_html(played, run.header.target, fps))
    print(clean(report.headline(played, run.header.target)))
    if problem := report.warning(played):
        say(f"! {problem}")
    report.animate(played, Output(highlight=False), fps)
    return 0


def _import(environment: str, module: str | None) -> None:
    """Import the module that registers an environment, if the user says so: a record alone makes hotlap import nothing."""
    from hotlap.systems import is_known

    named, colon, _ = environment.partition(":")
    if colon and module != named:
        raise UsageError(f"{environment} is registered by a module of yours: add --module {named}")
    if module and not is_known(environment):
        raise UsageError(f"--module {module} does not register {environment or 'the game of this run'}")


def _list(kept: episodes.Kept, path: Path, as_json: bool) -> int:
    from hotlap.report import terminal
    from hotlap.report.replay import episode_table

    if as_json:
        listed = [
            {"number": e.number, "seed": e.seed, "length": e.length, "returns": e.returns, "players": e.players}
            | {"metrics": e.metrics, "score": e.score}
            for e in kept.episodes
        ]
        print_json({"schema": "hotlap.episodes/1", "run": str(path), "environment": kept.source.name, "episodes": listed})
    else:
        terminal.render(f"{len(kept.episodes)} episodes in {path}", [episode_table(kept)], terminal.Output())
    return 0


def chosen(kept: episodes.Kept, which: str) -> episodes.Episode:
    """An episode by its number or its rank."""
    if not kept.episodes:
        raise UsageError("no episode was short enough to be kept")
    ranked = episodes.in_order(kept.episodes)
    if which in BY_RANK:
        return ranked[{"best": -1, "worst": 0, "median": len(ranked) // 2}[which]]
    numbers = {episode.number: episode for episode in kept.episodes}
    if not which.isdecimal() or int(which) not in numbers:
        least, most = min(numbers), max(numbers)
        raise UsageError(f"--episode {which}: choose a number from {least} to {most}, or {', '.join(BY_RANK)}")
    return numbers[int(which)]

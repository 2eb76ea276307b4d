"""A replayed episode in a terminal: an animation, or one frame after another where the output is no terminal. And which
episodes a run kept."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from hotlap.envs.picture import Picture, plain
from hotlap.record.episodes import Episode, Kept
from hotlap.report.sections import Cells, Table, clean
from hotlap.systems.simulation import Frame, ReplayedEpisode

SCHEMA = "hotlap.replay/1"


@dataclass(frozen=True)
class FrameDocument:
    """A frame as data."""

    step: int
    text: str
    actions: tuple[str, ...]
    rewards: tuple[float, ...]
    returns: tuple[float, ...]


@dataclass(frozen=True)
class ReplayDocument:
    """What `hotlap replay --json` prints."""

    schema: str
    run: str
    environment: str
    reproduced: bool
    episode: Episode
    frames: tuple[FrameDocument, ...]


def document_of(replay: ReplayedEpisode, run: str) -> ReplayDocument:
    frames = tuple(
        FrameDocument(frame.step, plain(frame.picture), frame.actions, frame.rewards, frame.returns) for frame in replay.frames
    )
    return ReplayDocument(SCHEMA, run, replay.source.name, replay.reproduced, replay.episode, frames)


# -- in words --


def headline(replay: ReplayedEpisode, system: str) -> str:
    episode = replay.episode
    parts = [f"{system}, episode {episode.number}: {episode.length} steps"]
    if len(episode.returns) == 1:
        parts.append(f"return {episode.returns[0]:.4g}")
    parts += [f"{name} {_mean(values):.4g}" for name, values in episode.metrics.items()]
    parts += [] if episode.score is None else [outcome(episode.score)]
    return ", ".join(parts)


def outcome(score: float) -> str:
    """How a game ended for the policy."""
    return {1.0: "the policy won", 0.0: "the policy lost", 0.5: "draw"}.get(score, f"score {score:.2f}")


def player_names(episode: Episode) -> tuple[str, ...]:
    """What the players are called: seats by who sits there, agents by their number."""
    if len(episode.players) == 1:
        return ("",)
    if len(set(episode.players)) == 1:
        return tuple(f"agent {number}" for number in range(1, len(episode.players) + 1))
    return tuple(f"seat {number}, {player}" for number, player in enumerate(episode.players, 1))


def warning(replay: ReplayedEpisode) -> str:
    """What to say if the episode did not go as it did when it was recorded."""
    if replay.reproduced:
        return ""
    now = ", ".join(f"{value:.6g}" for value in replay.frames[-1].returns)
    then = ", ".join(f"{value:.6g}" for value in replay.episode.returns)
    return (
        f"this is not how it went: return {now} after {len(replay.frames) - 1} steps, recorded {then} after "
        f"{replay.episode.length}; the environment has changed, or does not depend on its seed alone"
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


# -- in a terminal --


def styled(picture: Picture) -> Text:
    return Text("\n").join(Text.assemble(*((clean(text), style) for text, style in line)) for line in picture)


def frame_text(replay: ReplayedEpisode, frame: Frame) -> Group:
    """The state, and below it what was done and what came of it."""
    status = Text(f"step {frame.step}/{replay.episode.length}", style="bold")
    names = player_names(replay.episode)
    lines = [status]
    styles = replay.seat_styles or ("",) * len(names)
    for name, style, action, reward, total in zip(names, styles, frame.actions, frame.rewards, frame.returns, strict=True):
        line = Text.assemble((f"{clean(name)}  " if name else "", style))
        line.append(f"action {clean(action)}  " if action else "", style="cyan")
        line.append(f"reward {reward:+.4g}  return {total:.4g}")
        lines.append(line)
    return Group(styled(frame.picture), *lines)


def animate(replay: ReplayedEpisode, console: Console, fps: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show every frame in its turn; where nothing moves (a file, a pipe), one after another."""
    if not console.is_terminal:
        for frame in replay.frames:
            console.print(frame_text(replay, frame))
            console.print()
        return
    with Live(console=console, auto_refresh=False) as live:
        for frame in replay.frames:
            live.update(frame_text(replay, frame), refresh=True)
            sleep(1 / fps)


# -- which there are --


def episode_table(kept: Kept) -> Table:
    """All kept episodes, a row each."""
    metrics = list(kept.episodes[0].metrics) if kept.episodes else []
    rows: list[Cells] = []
    for episode in kept.episodes:
        versus = " / ".join(episode.players) if len(set(episode.players)) > 1 else ""
        returns = ", ".join(f"{value:.4g}" for value in episode.returns)
        values = [f"{_mean(episode.metrics[name]):.4g}" if name in episode.metrics else "" for name in metrics]
        score = "" if episode.score is None else f"{episode.score:g}"
        rows.append((str(episode.number), str(episode.seed), str(episode.length), *values, score, returns, versus))
    columns = (">episode", ">seed", ">steps", *(f">{name}" for name in metrics), ">score", ">return", "seats")
    return Table(f"Episodes of {kept.source.name}", columns, rows, "hotlap replay RUN --episode NUMBER, best, worst or median")

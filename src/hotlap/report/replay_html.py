"""A replayed episode as one HTML page that needs no network: the states, a scrubber, what was done and what came of it."""

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment
from rich.color import ColorType
from rich.errors import StyleSyntaxError
from rich.style import Style

from hotlap.report.replay import headline, player_names, warning
from hotlap.report.sections import clean
from hotlap.systems.simulation import Frame, ReplayedEpisode

TEMPLATE = Path(__file__).with_name("replay.html.jinja")
# The sixteen colours of a terminal are CSS variables, which differ between light and dark.
COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
# Of players whom the game draws in no colours of their own: further variables of the page.
PLAYER_COLOURS = ("accent", "red", "green", "magenta", "cyan", "yellow", "blue", "quiet")


def as_html(replay: ReplayedEpisode, system: str, fps: float) -> str:
    styles: dict[str, int] = {"": 0}
    frames = [_frame(frame, styles) for frame in replay.frames]
    data = {
        "styles": [css(style) for style in styles],
        "players": [clean(name) for name in player_names(replay.episode)],
        "colours": _player_colours(replay),
        "frames": frames,
        "fps": fps,
    }
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")  # nothing in a script may end it
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(TEMPLATE.read_text())
    return template.render(title=clean(headline(replay, system)), warning=clean(warning(replay)), data=text, colours=COLOURS)


def _player_colours(replay: ReplayedEpisode) -> list[str]:
    """Of names and curves: as the players are drawn."""
    colours = [f"var(--{PLAYER_COLOURS[i % len(PLAYER_COLOURS)]})" for i in range(len(replay.episode.players))]
    for i, style in enumerate(replay.seat_styles):
        colours[i] = _colour(Style.parse(style).color) or colours[i]
    return colours


def _frame(frame: Frame, styles: dict[str, int]) -> dict[str, Any]:
    lines = [_runs([(clean(text), style) for text, style in line], styles) for line in frame.picture]
    return {"p": lines, "a": [clean(action) for action in frame.actions], "r": frame.rewards, "t": frame.returns}


def _runs(line: list[tuple[str, str]], styles: dict[str, int]) -> list[Any]:
    """A line as text, style, text, style ...; blanks take the style before them, so that runs are long."""
    runs: list[Any] = []
    for text, style in line:
        number = styles.setdefault(style, len(styles))
        blank = not text.strip() and not style
        if runs and (runs[-1] == number or (blank and "reverse" not in list(styles)[runs[-1]])):
            runs[-2] += text
        else:
            runs += [text, number]
    return runs


def css(style: str) -> str:
    """A style of Rich's as CSS."""
    try:
        parsed = Style.parse(style)
    except StyleSyntaxError:
        return ""
    front, back = _colour(parsed.color), _colour(parsed.bgcolor)
    if parsed.reverse:
        front, back = back or "var(--page)", front or "var(--text)"
    rules = {"color": front, "background": back}
    rules |= {"font-weight": "700" if parsed.bold else "", "opacity": "0.5" if parsed.dim else ""}
    rules |= {"font-style": "italic" if parsed.italic else "", "text-decoration": "underline" if parsed.underline else ""}
    return ";".join(f"{name}:{value}" for name, value in rules.items() if value)


def _colour(colour: Any) -> str:
    if colour is None or colour.type is ColorType.DEFAULT:
        return ""
    if colour.number is not None and colour.number < 16:
        return f"var(--{COLOURS[colour.number % 8]})"
    return str(colour.get_truecolor().hex)

"""Gantt charts of schedules: SVG, and an HTML page that needs nothing else."""

from dataclasses import dataclass
from html import escape

from hotlap.envs.petri.net import Role
from hotlap.envs.petri.schedule import Schedule, Stay

ROW, GAP, LEFT, TOP, WIDTH = 18, 4, 130, 28, 1_000  # pixels
ROWS = ("places", "tokens")
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 1180px; color: #222; background: #fff; }}
svg {{ width: 100%; height: auto; }}
p {{ color: #555; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{facts}</p>
{charts}
</body>
</html>
"""


@dataclass(frozen=True)
class Lane:
    """One line of bars."""

    label: str
    stays: tuple[Stay, ...]


def gantt_svg(schedule: Schedule, rows: str = "places") -> str:
    """A chart with a line for each place (and each token that it holds at a time), or for each token.

    Bars are solid while a token is processed or carried, pale while it could leave, and red after it is scrap.
    """
    if rows not in ROWS:
        raise ValueError(f"petri: rows must be one of {', '.join(ROWS)}, not {rows!r}")
    lanes = _place_lanes(schedule) if rows == "places" else _token_lanes(schedule)
    height, end = TOP + len(lanes) * (ROW + GAP) + 8, max(1, schedule.makespan)
    scale = (WIDTH - LEFT - 10) / end
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" '
        f'font-size="11" role="img" aria-label="Gantt chart, {end} seconds">'
    ]
    for time in _ticks(end):
        x = LEFT + time * scale
        parts.append(f'<path d="M{x:.1f} {TOP - 6}V{height - 6}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP - 10}" text-anchor="middle" fill="#555">{time:,} s</text>')
    for number, lane in enumerate(lanes):
        y = TOP + number * (ROW + GAP)
        parts.append(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end" fill="#222">{escape(lane.label)}</text>')
        for stay in lane.stays:
            parts += _bar(stay, y, scale, stay.place.name if rows == "tokens" else str(stay.token + 1))
    return "\n".join([*parts, "</svg>"]) + "\n"


def gantt_html(schedule: Schedule, title: str = "Schedule") -> str:
    """Both charts and the main numbers, as a page."""
    scrapped = sorted({stay.token + 1 for stay in schedule.scrapped})
    facts = f"{schedule.makespan:,} s, {len(schedule.firings)} firings, {schedule.done} of {schedule.tokens} tokens done"
    facts += f", scrapped: {', '.join(map(str, scrapped))}." if scrapped else ", none scrapped."
    charts = "\n".join(f"<h2>By {rows[:-1]}</h2>\n{gantt_svg(schedule, rows)}" for rows in ROWS)
    return PAGE.format(title=escape(title), facts=escape(facts), charts=charts)


def _place_lanes(schedule: Schedule) -> list[Lane]:
    """Lines of the places that can be full, or of all but sinks if there is none; tokens take the first line that is free."""
    places = [place for place in schedule.net.places if place.role not in (Role.SINK, Role.RESOURCE)]
    limited = [place for place in places if place.capacity is not None]
    lanes = []
    for place in limited or places:
        lines: list[list[Stay]] = [[]]
        for stay in (stay for stay in schedule.stays if stay.place is place):
            free = next((line for line in lines if not line or line[-1].end <= stay.begin), None)
            if free is None:
                lines.append(free := [])
            free.append(stay)
        lanes += [Lane(place.name if number == 0 else "", tuple(line)) for number, line in enumerate(lines)]
    return lanes


def _token_lanes(schedule: Schedule) -> list[Lane]:
    tokens = sorted({stay.token for stay in schedule.stays})
    shown = [stay for stay in schedule.stays if stay.place.role is not Role.SINK]
    return [Lane(f"token {token + 1}", tuple(stay for stay in shown if stay.token == token)) for token in tokens]


def _bar(stay: Stay, y: int, scale: float, label: str) -> list[str]:
    """A stay in up to three parts: until it is ready, until it is scrap, after that."""
    place, colour = stay.place, f"hsl({stay.token * 137 % 360} 60% 45%)"
    limit = stay.end if place.scrap_after is None else min(stay.end, stay.begin + place.scrap_after)
    begin, ready = max(0, stay.begin), min(stay.ready, stay.end)
    pieces = ((begin, ready, colour, 1.0), (max(begin, ready), limit, colour, 0.35), (max(begin, limit), stay.end, "#d00", 1.0))
    about = f"token {stay.token + 1} in {place.name}: {stay.begin:,}-{stay.end:,} s, ready at {stay.ready:,} s"
    if place.scrap_after is not None:
        about += f", scrap after {stay.begin + place.scrap_after:,} s"
    parts = [f"<g><title>{escape(about)}</title>"]
    for start, end, fill, opacity in pieces:
        if end > start:
            x, width = LEFT + start * scale, (end - start) * scale
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW}" fill="{fill}" fill-opacity="{opacity}"/>'
            )
    width = (stay.end - begin) * scale
    if width > 7 * len(label):
        dark = (ready - begin) * scale > 7 * len(label)
        parts.append(
            f'<text x="{LEFT + begin * scale + 3:.1f}" y="{y + 13}" fill="{"#fff" if dark else "#222"}">{escape(label)}</text>'
        )
    return [*parts, "</g>"]


def _ticks(end: int) -> list[int]:
    """About ten round times."""
    step = next(size * 10**power for power in range(9) for size in (1, 2, 5) if end / (size * 10**power) <= 10)
    return list(range(0, end + 1, step))

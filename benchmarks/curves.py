"""Draws the learning curves that the benchmarks kept: return against seconds, each contender's seeds in its colour.

    python benchmarks/curves.py

Reads benchmarks/results/ppo_learning.json and ppo_native.json, writes docs/img/ppo_curves.svg.
"""

import json
from html import escape
from pathlib import Path

from side_by_side import RESULTS

OUT = RESULTS.parent.parent / "docs" / "img" / "ppo_curves.svg"
COLOURS = ("#1a7f5a", "#c2571a", "#4a5fb0", "#8b6a12")
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 300, 210, 44, 28, 10, 34
Curves = dict[str, list[list[tuple[float, float]]]]  # by contender: points of each seed


def panels() -> dict[str, Curves]:
    """Points (seconds, return) by task and contender."""
    curves: dict[str, Curves] = {}
    for title, result in json.loads((RESULTS / "ppo_learning.json").read_text())["results"].items():
        task, _, name = title.partition(": ")
        runs = result["curves of steps, seconds, return"]
        points = [[(row[1], row[2]) for row in run if row[2] is not None] for run in runs]
        curves.setdefault(task, {})[name.removeprefix("hotlap, ")] = points
    for title, result in json.loads((RESULTS / "ppo_native.json").read_text())["results"].items():
        task = f"native CartPole, {title.partition(':')[0]}: episode / longest"
        for name, kept in result["curves"].items():
            longest = 200 if name.startswith("Puffer") else 500
            curve = [(row[1], row[2] / longest) for row in kept["steps, seconds, episode length"]]
            curves.setdefault(task, {})[name] = [curve]
    return curves


def panel(title: str, curves: Curves, x: int, y: int) -> str:
    points = [point for runs in curves.values() for run in runs for point in run]
    right, low, high = max(p[0] for p in points), min(p[1] for p in points), max(p[1] for p in points)
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    parts = [f'<g transform="translate({x},{y})"><text x="{LEFT}" y="16" class="title">{escape(title)}</text>']
    for share in (0.0, 0.5, 1.0):
        value, at = low + share * (high - low), TOP + height * (1 - share)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{value:.3g}</text>')
        parts.append(
            f'<text x="{LEFT + width * share:.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{right * share:.3g} s</text>'
        )
    for number, (name, runs) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        for run in runs:
            line = " ".join(
                f"{LEFT + width * s / right:.1f},{TOP + height * (1 - (v - low) / max(high - low, 1e-9)):.1f}" for s, v in run
            )
            parts.append(f'<polyline points="{line}" stroke="{colour}"/>')
        parts.append(
            f'<text x="{LEFT + 82 * number}" y="{HEIGHT - 4}" style="fill:{colour}" class="name">{escape(name)}</text>'
        )
    return "".join([*parts, "</g>"])


def main() -> None:
    columns = 3
    drawn = []
    for i, (title, curves) in enumerate(panels().items()):
        drawn.append(panel(title, curves, WIDTH * (i % columns), HEIGHT * (i // columns)))
    width, height = WIDTH * columns, HEIGHT * -(-len(drawn) // columns)
    style = "text{font:10px sans-serif;fill:#555}.title{font-size:11px;fill:#111}.name{font-weight:bold}"
    style += "polyline{fill:none;stroke-width:1.2;opacity:.8}.grid{stroke:#ddd}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    paper = f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>'
    OUT.write_text("\n".join([head, paper, *drawn, "</svg>\n"]))
    print(OUT.relative_to(Path.cwd()) if OUT.is_relative_to(Path.cwd()) else OUT.name)


if __name__ == "__main__":
    main()

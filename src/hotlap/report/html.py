"""Sections as one HTML file that needs no network: plotly's script is inside it."""

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment

from hotlap.core import stages
from hotlap.report.sections import Bar, Plot, Report, Section, clean

Figure = dict[str, Any]  # and parts of one: JSON as plotly defines it
TEMPLATE = Path(__file__).with_name("report.html.jinja")

# One colour per top-level stage, lighter for the stages inside it; chosen to be told apart by colour-blind readers.
COLOURS = {
    stages.COLLECT: "#0072b2",
    stages.ADVANTAGE: "#cc79a7",
    stages.SAMPLE: "#009e73",
    stages.UPDATE: "#d55e00",
    stages.TRANSFER: "#f0e442",
    stages.EVALUATE: "#56b4e9",
    stages.LOG: "#8c6bb1",
    stages.CHECKPOINT: "#a6761d",
    stages.UNATTRIBUTED: "#999999",
    "iteration": "#e8e8e8",
}


def as_html(report: Report) -> str:
    return render(report.title, report.sections)


def render(title: str, sections: Sequence[Section]) -> str:
    from plotly.offline import get_plotlyjs

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_finalize)
    template = environment.from_string(TEMPLATE.read_text())
    plots = [section for section in sections if isinstance(section, Plot)]
    # Inside a script nothing is escaped by the template: no "<" is left that could end it or begin a comment.
    figures = json.dumps([_figure(plot) for plot in plots]).replace("<", "\\u003c")
    parts = [(type(section).__name__, section) for section in sections]
    return template.render(title=title, parts=parts, figures=figures, plotlyjs=get_plotlyjs(), is_bar=_is_bar)


def _finalize(value: Any) -> Any:
    """Text of a record without control characters; what is marked as safe (the scripts) stays as it is."""
    return clean(value) if type(value) is str else value


def _is_bar(cell: Any) -> bool:
    return isinstance(cell, Bar)


def _label(text: str) -> str:
    """Text in a figure: plotly reads tags in it."""
    return escape(clean(text), quote=False)


def _figure(plot: Plot) -> Figure:
    """A plotly figure: traces and layout, as plain data."""
    layout: Figure = {
        "margin": {"l": 60, "r": 16, "t": 8, "b": 48},
        "height": 340,
        "hovermode": "x unified",
        "legend": {"orientation": "h", "y": -0.35},
        "xaxis": {"title": {"text": _label(plot.x_label)}},
        "yaxis": {"title": {"text": _label(plot.y_label)}, "rangemode": "tozero"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }
    if plot.kind == "icicle":
        return _icicle(plot, layout)
    if plot.kind == "dots":
        return _dots(plot, layout)
    return _lines(plot, layout)


def _icicle(plot: Plot, layout: Figure) -> Figure:
    paths = list(plot.series)
    trace = {
        "type": "icicle",
        "ids": [_label(path) for path in paths],
        "labels": [_label(path.rpartition("/")[2]) for path in paths],
        "parents": [_label(plot.parents[path]) for path in paths],
        "values": [plot.series[path][0] for path in paths],
        "text": [stages.meaning(path) for path in paths],
        "customdata": [plot.labels.get(path, "") for path in paths],
        "branchvalues": "total",
        "sort": False,
        "tiling": {"orientation": "v"},
        "textinfo": "label+percent root",
        "hovertemplate": "<b>%{id}</b><br>%{customdata} per iteration, %{percentRoot:.1%}<br>%{text}<extra></extra>",
        "marker": {"colors": [_colour(path) for path in paths]},
    }
    return {"data": [trace], "layout": {**layout, "height": 260, "margin": {"l": 4, "r": 4, "t": 4, "b": 4}}}


def _lines(plot: Plot, layout: Figure) -> Figure:
    """Lines, or areas on top of each other."""
    area = plot.kind == "area"
    traces: list[Figure] = []
    if plot.log:
        layout["xaxis"]["type"] = layout["yaxis"]["type"] = "log"
        del layout["yaxis"]["rangemode"]
    for name, values in plot.series.items():
        colour = _colour(name) if area else None
        trace: Figure = {"type": "scatter", "name": _label(name), "x": list(plot.x), "y": list(values)}
        if area:
            trace |= {"mode": "lines", "stackgroup": "one", "fillcolor": colour, "hovertemplate": "%{y:.1f}%"}
        else:
            trace |= {"mode": "lines+markers", "marker": {"size": 5}}
        traces.append(trace | {"line": {"color": colour, "width": 0.5 if area else 2}})
    if area:
        layout["yaxis"] |= {"range": [0, 100]}
    return {"data": traces, "layout": layout}


def _dots(plot: Plot, layout: Figure) -> Figure:
    """Single values, with the interval of their middle as a band behind them, and a line at 1."""
    traces: list[Figure] = []
    ends = [plot.x[0] - 0.5, plot.x[-1] + 0.5]
    shapes: list[Figure] = [
        {"type": "line", "x0": ends[0], "x1": ends[1], "y0": 1, "y1": 1, "line": {"dash": "dot", "width": 1}}
    ]
    for number, (name, values) in enumerate(plot.series.items()):
        colour = list(COLOURS.values())[number % (len(COLOURS) - 2)]
        marks: Figure = {"type": "scatter", "mode": "markers", "name": _label(name)}
        marks |= {"x": list(plot.x[: len(values)]), "y": list(values)}
        traces.append(marks | {"marker": {"size": 6, "color": colour}})
        if name in plot.bands:
            value, low, high = plot.bands[name]
            across = {"x0": ends[0], "x1": ends[1]}
            band = {"y0": low, "y1": high, "fillcolor": colour, "opacity": 0.15, "line": {"width": 0}}
            middle = {"y0": value, "y1": value, "line": {"color": colour, "width": 1}}
            shapes += [{"type": "rect", **across, **band}, {"type": "line", **across, **middle}]
    del layout["yaxis"]["rangemode"]
    return {"data": traces, "layout": {**layout, "shapes": shapes, "hovermode": "closest", "showlegend": True}}


def _colour(path: str) -> str:
    """The colour of a stage; deeper and later siblings are lighter."""
    top, *below = path.split("/")
    base = COLOURS.get(top, "#666666")
    if not below:
        return base
    siblings = [name for name, stage in stages.STAGES.items() if stage.parent == top]
    place = siblings.index(below[-1]) if below[-1] in siblings else len(siblings)
    blend = 0.15 + 0.14 * place
    channels = (int(base[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(c + (255 - c) * min(blend, 0.8)):02x}" for c in channels)

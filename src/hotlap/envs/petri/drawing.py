"""A net and its marking as a drawing: DOT for Graphviz, SVG without it, lines of text for terminals.

In the SVG, tokens flow through columns, to and fro if there are many; resources stand apart, with thin arcs.
"""

from collections import Counter
from collections.abc import Sequence
from html import escape

from hotlap.envs.petri.net import Net, Role
from hotlap.envs.petri.timed import TimedNet
from hotlap.envs.picture import Picture

COLUMN, LINE, MARGIN, RADIUS = 74, 96, 48, 17  # pixels
BAR = (5, 15)  # half the width and height of a transition
BAND = 14  # columns of a band
FILL = {Role.BUFFER: "#fff", Role.CHAMBER: "#fde8c8", Role.TRANSPORT: "#dcebfb", Role.SINK: "#d9f2dc", Role.RESOURCE: "#eee"}
Point = tuple[float, float]
Node = tuple[str, int]  # "p" or "t", and its number


def to_dot(net: Net, marking: Sequence[int] | None = None) -> str:
    """The net for Graphviz."""
    held = net.marking if marking is None else marking
    lines = [f"digraph {_quoted(net.name)} {{", "  rankdir=LR;", '  node [fontname="sans-serif"];']
    for number, place in enumerate(net.places):
        tokens = "•" * held[number] if held[number] <= 4 else str(held[number])
        label = "\\n".join(_escaped(text) for text in (place.name, *_details(net, number), tokens) if text)
        lines.append(f'  p{number} [shape=circle, style=filled, fillcolor="{FILL[place.role]}", label="{label}"];')
    for number, transition in enumerate(net.transitions):
        label = f"{_escaped(transition.name)}\\n{transition.duration} s"
        lines.append(f'  t{number} [shape=box, style=filled, fillcolor="#333", fontcolor=white, label="{label}"];')
        wiring = net.wiring[number]
        for ends, arcs in (("p{0} -> t{1}", wiring.inputs), ("t{1} -> p{0}", wiring.outputs)):
            for place_number, weight in arcs:
                label = f' [label="{weight}"]' if weight > 1 else ""
                lines.append(f"  {ends.format(place_number, number)}{label};")
        for place_number, below in wiring.guards:
            lines.append(f'  p{place_number} -> t{number} [arrowhead=odot, style=dashed, label="< {below}"];')
    return "\n".join([*lines, "}"]) + "\n"


def to_svg(net: Net, marking: Sequence[int] | None = None) -> str:
    """The net as a picture."""
    held = net.marking if marking is None else marking
    places, transitions = layout(net)
    width = max(x for x, _ in (*places, *transitions)) + MARGIN
    height = max(y for _, y in (*places, *transitions)) + MARGIN + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" font-family="system-ui, sans-serif" '
        f'font-size="10" text-anchor="middle" role="img" aria-label="{escape(net.name)}">',
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
    ]
    for number, wiring in enumerate(net.wiring):
        here = transitions[number]
        for kind, arcs in (("input", wiring.inputs), ("output", wiring.outputs)):
            for end, weight in arcs:
                parts += _edge(places[end], here, str(weight) if weight > 1 else "", net.identified[end], kind)
        for end, below in wiring.guards:
            parts += _edge(places[end], here, f"< {below}", False, "guard")
    for number, (place, (x, y)) in enumerate(zip(net.places, places, strict=True)):
        details = ", ".join(_details(net, number))
        parts.append(f"<g><title>{escape(f'{place.name} ({place.role})' + (f': {details}' if details else ''))}</title>")
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}" fill="{FILL[place.role]}" stroke="#333"/>')
        parts += [*_tokens(x, y, held[number]), f'<text x="{x:.1f}" y="{y + RADIUS + 12:.1f}">{escape(place.name)}</text></g>']
    for transition, (x, y) in zip(net.transitions, transitions, strict=True):
        parts.append(f"<g><title>{escape(f'{transition.name}: {transition.duration} s')}</title>")
        parts.append(f'<rect x="{x - 5:.1f}" y="{y - 15:.1f}" width="10" height="30" fill="#333"/>')
        parts.append(f'<text x="{x:.1f}" y="{y - 20:.1f}" fill="#555">{escape(transition.name)}</text></g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def layout(net: Net) -> tuple[list[Point], list[Point]]:
    """Where places and transitions go. A node's column is its distance from where tokens come in; many columns are folded into
    bands that run to and fro. Resources stand between the bands, or above the only one."""
    columns = _columns(net)
    bands = -(-(max(columns.values(), default=0) + 1) // BAND)
    per_band = -(-(max(columns.values(), default=0) + 1) // bands)
    resources = [number for number, identified in enumerate(net.identified) if not identified]
    depth = max([1, *Counter(columns.values()).values()])
    lines: Counter[int] = Counter()
    points: dict[Node, Point] = {}
    for node, column in columns.items():
        band, along = divmod(column, per_band)
        below = band * depth + lines[column] + bool(resources) * (1 if bands == 1 else band)
        points[node] = MARGIN + COLUMN * (per_band - 1 - along if band % 2 else along), MARGIN + LINE * below
        lines[column] += 1
    taken: set[int] = set()
    for number in resources:
        beside = [points["t", t][0] for t, w in enumerate(net.wiring) if number in {p for p, _ in (*w.inputs, *w.outputs)}]
        slot = round((sum(beside) / len(beside) - MARGIN) / COLUMN) if beside else 0
        while slot in taken:
            slot += 1
        taken |= {slot - 1, slot, slot + 1}
        points["p", number] = MARGIN + COLUMN * slot, MARGIN + LINE * (0 if bands == 1 else depth)
    places, transitions = (
        [points[kind, number] for number in range(count)]
        for kind, count in (("p", len(net.places)), ("t", len(net.transitions)))
    )
    return places, transitions


def _columns(net: Net) -> dict[Node, int]:
    """Breadth first along identified tokens, from the places that hold tokens; then from what was not reached."""
    follow: dict[Node, list[Node]] = {}
    for number, wiring in enumerate(net.wiring):
        for place, _ in wiring.inputs:
            if net.identified[place]:
                follow.setdefault(("p", place), []).append(("t", number))
        follow["t", number] = [("p", place) for place, _ in wiring.outputs if net.identified[place]]
    places = [("p", number) for number, identified in enumerate(net.identified) if identified]
    roots = [node for node in places if net.places[node[1]].tokens]
    columns: dict[Node, int] = {}
    for root in [*roots, *follow, *places]:
        front = [] if root in columns else [root]
        if front:
            columns[root] = 0
        while front:
            node = front.pop(0)
            for after in follow.get(node, []):
                if after not in columns:
                    columns[after] = columns[node] + 1
                    front.append(after)
    return columns


def _edge(place: Point, transition: Point, label: str, main: bool, kind: str) -> list[str]:
    """An arc between a place and a transition; `kind`: input, output or guard."""
    (x1, y1), (x2, y2) = place, transition
    length = max(1.0, ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    border = min(half / max(1e-9, abs(part)) for half, part in zip(BAR, (dx, dy), strict=True))
    x1, y1, x2, y2 = x1 + dx * RADIUS, y1 + dy * RADIUS, x2 - dx * border, y2 - dy * border
    bend = 0.0 if length < 1.5 * COLUMN else (0.12 if kind == "input" else -0.12) * length
    cx, cy = (x1 + x2) / 2 - dy * bend, (y1 + y2) / 2 + dx * bend
    guard = kind == "guard"
    if kind == "output":
        x1, y1, x2, y2 = x2, y2, x1, y1
    colour, dash = ("#555", "") if main else ("#aaa", "")
    if guard:
        colour, dash = "#c33", ' stroke-dasharray="4 3"'
    tip = "" if guard else ' marker-end="url(#arrow)"'
    path = f"M{x1:.1f} {y1:.1f}Q{cx:.1f} {cy:.1f} {x2:.1f} {y2:.1f}"
    parts = [f'<path d="{path}" fill="none" stroke="{colour}"{dash}{tip}/>']
    if guard:
        parts.append(f'<circle cx="{x2:.1f}" cy="{y2:.1f}" r="3" fill="#fff" stroke="{colour}"/>')
    if label:
        parts.append(f'<text x="{cx:.1f}" y="{cy - 3:.1f}" fill="{colour}">{escape(label)}</text>')
    return parts


def _tokens(x: float, y: float, count: int) -> list[str]:
    """Up to four dots, else the number."""
    if count > 4:
        return [f'<text x="{x:.1f}" y="{y + 4:.1f}" font-size="13">{count}</text>']
    shifts = {0: (), 1: ((0, 0),), 2: ((-5, 0), (5, 0)), 3: ((-5, 4), (5, 4), (0, -5)), 4: ((-5, -5), (5, -5), (-5, 5), (5, 5))}
    return [f'<circle cx="{x + dx:.1f}" cy="{y + dy:.1f}" r="3.2" fill="#111"/>' for dx, dy in shifts[count]]


def _details(net: Net, number: int) -> list[str]:
    place = net.places[number]
    texts = [f"{place.process} s" if place.process else ""]
    texts.append("" if place.residency is None else f"scrap after +{place.residency} s")
    texts.append("" if place.capacity is None else f"at most {place.capacity}")
    return [text for text in texts if text]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def picture(now: TimedNet) -> Picture:
    """The marking as lines of text: each place with its tokens and how long they have been there."""
    lines: Picture = [[(f"{now.time:,} s", "bold"), (f"   {now.done()} of {now.tokens()} done", "")]]
    width = max(len(place.name) for place in now.net.places)
    for number, place in enumerate(now.net.places):
        most = "" if place.capacity is None else f"/{place.capacity}"
        line = [(f"{place.name:<{width}} {now.counts[number]:>3}{most:<3}", "" if now.counts[number] else "dim")]
        for position, token in enumerate(now.queues[number]):
            if position == 6:
                line.append(("  ...", "dim"))
                break
            scrap, ready = now.scrap_in(token), now.ready_in(number, position) <= 0
            style = "bold red" if scrap is not None and scrap <= 5 else "green" if ready else "yellow"
            line.append((f"  #{token + 1} {now.time - now.arrived[token]} s", style))
        lines.append(line)
    return lines

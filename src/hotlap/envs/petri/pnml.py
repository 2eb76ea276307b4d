"""Nets as PNML files: place/transition nets of ISO/IEC 15909-2, read and written.

What the standard does not have is in blocks `<toolspecific tool="hotlap" version="1">`, whose attributes may all be left out:
- in a place: `<timedPlace role="chamber" capacity="2" process="70" residency="15"/>` (roles: net.py; times in seconds),
- in a transition: `<timedTransition duration="5"><guard place="ID" below="2"/></timedTransition>`,
- in the net: `<timedNet wait="5" maxTokens="12"/>`.

Other tools ignore them. Files of other tools load too: their tokens are identified, nothing takes time but firing (5 s), the
places of a final marking are sinks, inhibitor arcs are guards. The order of arcs in the file says which token goes where
(`net.Transition`). Pages are flattened, references followed, graphics skipped.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import TypeVar
from xml.etree import ElementTree

from hotlap.envs.petri import safe_xml
from hotlap.envs.petri.net import MAX_COUNT, MAX_NODES, Arc, Guard, Net, Place, Role, Transition
from hotlap.envs.petri.safe_xml import Element

NAMESPACE = "http://www.pnml.org/version-2009/grammar/pnml"
TYPE = "http://www.pnml.org/version-2009/grammar/ptnet"
TYPES = (TYPE, "http://www.pnml.org/version-2009/grammar/pnmlcoremodel", "")  # without a type: taken for one of these
TOOL, VERSION = "hotlap", "1"
MOST = {"place": 2 * MAX_NODES, "transition": 2 * MAX_NODES, "referencePlace": 10_000, "referenceTransition": 10_000}
SKIPPED = ("graphics",)
Default = TypeVar("Default")


def read_pnml(path: str | Path) -> Net:
    """The net in a file. Raises ValueError with one line."""
    try:
        with os.fdopen(_open_regular(path), "rb") as file:
            data = file.read(safe_xml.MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ValueError(f"petri: cannot read {str(path)[:200]!r}: {reason}") from None
    return parse_pnml(data, str(path))


def _open_regular(path: str | Path) -> int:
    """Refuses pipes and devices, which may never end."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise ValueError("it is no regular file")
    return opened


def parse_pnml(data: bytes | str, name: str = "text") -> Net:
    """The net in a PNML document. Raises ValueError with one line."""
    try:
        root, namespace = safe_xml.parse(data.encode() if isinstance(data, str) else data, SKIPPED, MOST)
        return _Reader(root, namespace).net()
    except ValueError as error:
        raise ValueError(f"petri: {name[:200]!r} is no net that can be loaded: {str(error).removeprefix('petri: ')}") from None


@dataclass
class _Arcs:
    """Of one transition, while arcs are read: weights by place, in the order of the file."""

    inputs: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    guards: dict[str, int] = field(default_factory=dict)


class _Reader:
    """Turns the tree of a document into a net."""

    def __init__(self, root: Element, namespace: str) -> None:
        if root.tag != "pnml":
            raise ValueError(f"its root element is {root.tag[:60]!r}, not 'pnml'")
        if namespace not in (NAMESPACE, ""):
            raise ValueError(f"its namespace is {namespace[:100]!r}, not {NAMESPACE!r}")
        nets = root.all("net")
        if len(nets) != 1:
            raise ValueError(f"it has {len(nets)} nets; it must have one")
        self._net = nets[0]
        kind = self._net.attributes.get("type", "")
        if kind not in TYPES:
            raise ValueError(f"its net is of type {kind[:100]!r}; only place/transition nets ({TYPE}) can be loaded")
        self._places: dict[str, Element] = {}
        self._transitions: dict[str, Element] = {}
        self._references: dict[str, str] = {}
        self._arcs: list[Element] = []
        self._collect(self._net)

    def _collect(self, page: Element) -> None:
        for element in page.children:
            if element.tag == "page":
                self._collect(element)
            elif element.tag == "arc":
                self._arcs.append(element)
            elif element.tag in ("place", "transition", "referencePlace", "referenceTransition"):
                key = _attribute(element, "id")
                if key in self._places or key in self._transitions or key in self._references:
                    raise ValueError(f"the id {key[:60]!r} is used twice")
                if element.tag == "place":
                    self._places[key] = element
                elif element.tag == "transition":
                    self._transitions[key] = element
                else:
                    self._references[key] = _attribute(element, "ref")

    def net(self) -> Net:
        names = {**_names(self._places), **_names(self._transitions)}
        final = self._final_places()
        places = [self._place(key, element, names[key], key in final) for key, element in self._places.items()]
        arcs = {key: _Arcs() for key in self._transitions}
        for element in self._arcs:
            self._add_arc(element, arcs)
        transitions = []
        for key, element in self._transitions.items():
            own = arcs[key]
            timed = _own_block(element, "timedTransition", "duration")
            for guard in timed.all("guard"):
                place = self._resolve(_attribute(guard, "place"))
                if place not in self._places or place in own.guards:
                    raise ValueError(f"the guards of transition {key[:60]!r} must name different places")
                own.guards[place] = _number(guard, "below", 1)
            inputs = tuple(Arc(names[place], weight) for place, weight in own.inputs.items())
            outputs = tuple(Arc(names[place], weight) for place, weight in own.outputs.items())
            guards = tuple(Guard(names[place], below) for place, below in own.guards.items())
            transitions.append(Transition(names[key], inputs, outputs, guards, _number(timed, "duration", 5)))
        timed = _own_block(self._net, "timedNet", "wait", "maxTokens")
        name = _text(self._net, "name") or self._net.attributes.get("id", "net")
        most = _number(timed, "maxTokens", None)
        return Net(tuple(places), tuple(transitions), name[:200], _number(timed, "wait", 5), most)

    def _place(self, key: str, element: Element, name: str, final: bool) -> Place:
        timed = _own_block(element, "timedPlace", "role", "capacity", "process", "residency")
        role = timed.attributes.get("role", Role.SINK if final else Role.BUFFER)
        if role not in tuple(Role):
            raise ValueError(f"place {key[:60]!r} has an unknown role {role[:60]!r}; roles are {', '.join(Role)}")
        return Place(
            name,
            _whole(_text(element, "initialMarking") or "0", f"the initial marking of place {key[:60]!r}"),
            _number(timed, "capacity", None),
            _number(timed, "process", 0),
            _number(timed, "residency", None),
            Role(role),
        )

    def _add_arc(self, element: Element, arcs: dict[str, _Arcs]) -> None:
        source, target = (self._resolve(_attribute(element, end)) for end in ("source", "target"))
        label = f"the arc from {source[:60]!r} to {target[:60]!r}"
        weight = _whole(_text(element, "inscription") or "1", f"the inscription of {label}")
        kind = _text(element, "arctype") or "normal"
        if source in self._places and target in self._transitions:
            ends, place = arcs[target].inputs, source
            if kind == "inhibitor":  # parallel ones must all hold: the lowest limit
                guards = arcs[target].guards
                guards[place] = min(weight, guards.get(place, weight))
                return
        elif source in self._transitions and target in self._places:
            ends, place = arcs[source].outputs, target
        else:
            raise ValueError(f"{label} must lead from a place to a transition or from a transition to a place")
        if kind != "normal":
            raise ValueError(f"{label} is of type {kind[:60]!r}, which is not supported")
        ends[place] = ends.get(place, 0) + weight  # parallel arcs are one arc with the sum of their weights

    def _resolve(self, key: str) -> str:
        """Follow references to the place or transition that they stand for."""
        seen = {key}
        while key in self._references:
            key = self._references[key]
            if key in seen:
                raise ValueError(f"the reference {key[:60]!r} leads back to itself")
            seen.add(key)
        if key not in self._places and key not in self._transitions:
            raise ValueError(f"there is no place or transition with the id {key[:60]!r}")
        return key

    def _final_places(self) -> set[str]:
        """Places of the final marking that pm4py and ProM write."""
        marks = [mark for block in self._net.all("finalmarkings") for mark in block.all("marking")]
        held = [place for mark in marks for place in mark.all("place") if _text(place) not in ("", "0")]
        return {self._resolve(_attribute(place, "idref")) for place in held}


def _names(elements: dict[str, Element]) -> dict[str, str]:
    """A different name for each element: its own, or its id, or both."""
    own = {key: _text(element, "name")[:200] or key for key, element in elements.items()}
    counts: dict[str, int] = {}
    for name in own.values():
        counts[name] = counts.get(name, 0) + 1
    return {key: name if counts[name] == 1 else f"{name[:90]} ({key[:90]})" for key, name in own.items()}


def _text(element: Element, label: str | None = None) -> str:
    """The text of a label of an element, its white space normalised."""
    holder = element.first(label) if label else element
    text = holder.first("text") if holder else None
    return " ".join(text.text.split()) if text else ""


def _attribute(element: Element, name: str) -> str:
    if name not in element.attributes:
        raise ValueError(f"an element {element.tag[:60]!r} has no attribute {name!r}")
    return element.attributes[name]


def _number(element: Element, name: str, default: Default) -> int | Default:
    return _whole(element.attributes[name], f"{name} of a {element.tag}") if name in element.attributes else default


def _whole(text: str, label: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 7 or int(text) > MAX_COUNT:
        raise ValueError(f"{label} must be a whole number from 0 to {MAX_COUNT:,}, not {text[:60]!r}")
    return int(text)


def _own_block(element: Element, tag: str, *attributes: str) -> Element:
    """What hotlap wrote about an element; an empty one if it wrote nothing."""
    for block in element.all("toolspecific"):
        if block.attributes.get("tool") != TOOL:
            continue
        version = block.attributes.get("version", "")
        if version != VERSION:
            raise ValueError(f"it was written for version {version[:60]!r} of hotlap's timing; this is version {VERSION}")
        for timed in block.children:
            if timed.tag != tag or not timed.attributes.keys() <= set(attributes):
                raise ValueError(f"hotlap's block of a {element.tag} takes {tag!r} with {', '.join(attributes)}")
            return timed
    return Element(tag, {})


def write_pnml(net: Net, path: str | Path) -> None:
    """Save a net."""
    Path(path).write_text(format_pnml(net), encoding="utf-8")


def format_pnml(net: Net) -> str:
    """A net as a PNML document; `parse_pnml` gives an equal net."""
    root = ElementTree.Element("pnml", {"xmlns": NAMESPACE})
    top = ElementTree.SubElement(root, "net", {"id": "net", "type": TYPE})
    _label(top, "name", net.name)
    _write_block(top, "timedNet", {"wait": net.wait, "maxTokens": net.max_tokens})
    page = ElementTree.SubElement(top, "page", {"id": "page"})
    ids = {place.name: f"p{number}" for number, place in enumerate(net.places)}
    for place in net.places:
        element = ElementTree.SubElement(page, "place", {"id": ids[place.name]})
        _label(element, "name", place.name)
        if place.tokens:
            _label(element, "initialMarking", str(place.tokens))
        timing = {"capacity": place.capacity, "process": place.process, "residency": place.residency}
        _write_block(element, "timedPlace", {"role": place.role.value, **timing})
    for number, transition in enumerate(net.transitions):
        element = ElementTree.SubElement(page, "transition", {"id": f"t{number}"})
        _label(element, "name", transition.name)
        timed = _write_block(element, "timedTransition", {"duration": transition.duration})
        for guard in transition.guards:
            ElementTree.SubElement(timed, "guard", {"place": ids[guard.place], "below": str(guard.below)})
    arcs = 0
    for number, transition in enumerate(net.transitions):
        ends = [(ids[arc.place], f"t{number}", arc) for arc in transition.inputs]
        ends += [(f"t{number}", ids[arc.place], arc) for arc in transition.outputs]
        for source, target, arc in ends:
            element = ElementTree.SubElement(page, "arc", {"id": f"a{arcs}", "source": source, "target": target})
            if arc.weight != 1:
                _label(element, "inscription", str(arc.weight))
            arcs += 1
    ElementTree.indent(root)
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{ElementTree.tostring(root, encoding='unicode')}\n"


def _label(element: ElementTree.Element, tag: str, text: str) -> None:
    ElementTree.SubElement(ElementTree.SubElement(element, tag), "text").text = text


def _write_block(element: ElementTree.Element, tag: str, attributes: dict[str, str | int | None]) -> ElementTree.Element:
    block = ElementTree.SubElement(element, "toolspecific", {"tool": TOOL, "version": VERSION})
    known = {name: str(value) for name, value in attributes.items() if value is not None}
    return ElementTree.SubElement(block, tag, known)

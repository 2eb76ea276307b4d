"""Reads XML that nobody vouches for: no document type, no entities, no file or network access, bounded size and memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

MAX_BYTES = 16 * 2**20
MAX_ELEMENTS = 100_000
MAX_DEPTH = 64
MAX_TEXT = 10_000
CHUNK = 2**16
SEPARATOR = " "  # between a namespace and a name: neither has one


@dataclass(slots=True)
class Element:
    """`tag` has no namespace if it is the root's own."""

    tag: str
    attributes: Mapping[str, str]
    children: list["Element"] = field(default_factory=list)
    text: str = ""

    def all(self, *tags: str) -> list["Element"]:
        return [child for child in self.children if child.tag in tags]

    def first(self, tag: str) -> "Element | None":
        return next((child for child in self.children if child.tag == tag), None)


class _Builder:
    """Builds the tree, without the `skipped` elements, and stops at the first excess."""

    def __init__(self, skipped: Iterable[str], most: Mapping[str, int]) -> None:
        self.root: Element | None = None
        self.namespace = ""
        self._open: list[Element] = []
        self._skipped = frozenset(skipped)
        self._most = most
        self._seen = dict.fromkeys(most, 0)
        self._count = self._depth = self._inside_skipped = 0

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError(f"elements are nested more than {MAX_DEPTH} deep")
        namespace, _, tag = name.rpartition(SEPARATOR)
        if self.root is None:
            self.namespace = namespace
        if self._inside_skipped or tag in self._skipped:
            self._inside_skipped += 1
            return
        self._count += 1
        if self._count > MAX_ELEMENTS:
            raise ValueError(f"it has more than {MAX_ELEMENTS:,} elements")
        if tag in self._most:
            self._seen[tag] += 1
            if self._seen[tag] > self._most[tag]:
                raise ValueError(f"it has more than {self._most[tag]:,} elements {tag!r}")
        element = Element(tag if namespace == self.namespace else name, attributes)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def end(self, name: str) -> None:
        self._depth -= 1
        if self._inside_skipped:
            self._inside_skipped -= 1
        else:
            self._open.pop()

    def characters(self, text: str) -> None:
        if self._open and not self._inside_skipped:
            element = self._open[-1]
            element.text += text
            if len(element.text) > MAX_TEXT:
                raise ValueError(f"a text is longer than {MAX_TEXT:,} characters")

    def refuse_doctype(self, *_: object) -> None:
        raise ValueError("a document type declaration (DOCTYPE) is not accepted")


def parse(data: bytes, skipped: Iterable[str] = (), most: Mapping[str, int] | None = None) -> tuple[Element, str]:
    """The root element and its namespace. `most`: how many elements of a name there can be. Raises ValueError."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES // 2**20} MiB")
    builder = _Builder(skipped, most or {})
    parser = expat.ParserCreate(namespace_separator=SEPARATOR)
    parser.StartElementHandler = builder.begin
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.characters
    parser.StartDoctypeDeclHandler = builder.refuse_doctype
    parser.buffer_text = True
    try:
        for begin in range(0, len(data), CHUNK):
            parser.Parse(data[begin : begin + CHUNK], False)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise ValueError(f"it is not well-formed XML: {error}") from None
    except LookupError:  # an encoding that Python does not know
        raise ValueError("its text encoding is unknown") from None
    if builder.root is None:
        raise ValueError("it is empty")
    return builder.root, builder.namespace

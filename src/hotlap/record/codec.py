"""Nouns (frozen dataclasses) to JSON and strictly back: the one place where a record's types are checked.

A field's annotation is its schema. Metadata of a field can say more: `FLAT` puts the fields of a nested noun beside those
of its owner, `was(...)` names keys that older records have. What does not fit gives a `RecordError` with the place in the
document; numbers that are not finite or larger than 64 bits, and documents nested too deeply, are refused before they do harm.

Writing is used inside users' processes (standard library, Python 3.9); reading only by hotlap itself.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hotlap.core.errors import RecordError

Json = Any  # None, bool, int, float, str, list[Json] or dict[str, Json]: checked by `check_json`
Noun = TypeVar("Noun")
Decoder = Callable[[Any, str], Any]

FLAT: Mapping[str, Any] = {"flat": True}
MOST_BYTES = 256_000_000  # of a JSON file; a larger one is no record of hotlap's
MOST_DIGITS = 1 << 63
DEEPEST = 64


def was(*keys: str) -> dict[str, Any]:
    """Metadata of a field that older records call by one of these keys."""
    return {"was": keys}


# -- writing --


def to_json(value: Any) -> Json:
    """Plain data that `json.dumps` can write. Numbers that JSON does not have become None."""
    if is_dataclass(value) and not isinstance(value, type):
        document: dict[str, Json] = {}
        for field in fields(value):
            content = to_json(getattr(value, field.name))
            if field.metadata.get("flat") and isinstance(content, dict):
                document.update(content)
            else:
                document[field.name] = content
        return document
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    item = getattr(value, "item", None)  # a number of numpy's
    return to_json(item()) if callable(item) else str(value)


# -- reading --


def read(path: Path) -> Json:
    """A JSON file, whole."""
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            raise RecordError(f"{path} is not a record: {size:,} bytes")
        return loads(path.read_bytes(), str(path))
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error


def loads(text: str | bytes, where: str) -> Json:
    """JSON text as plain data; what is no JSON, or nested without end, is refused."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise RecordError(f"{where} is damaged: {reason}") from None


def from_json(kind: type[Noun], document: Json, where: str | os.PathLike[str]) -> Noun:
    """A noun from plain data, or a `RecordError` that says what is wrong with it."""
    try:
        decode: Decoder = _decoder(kind)  # type: ignore[arg-type]
        noun: Noun = decode(document, "")
        return noun
    except _Wrong as wrong:
        raise RecordError(f"{where} is damaged: {wrong}") from None


def check_json(value: Json, place: str, depth: int = 0) -> Json:
    """Free-form content of a record: bounded in depth, its numbers finite."""
    if depth > DEEPEST:
        raise _Wrong(f"{place or 'the document'} is nested too deeply")
    if isinstance(value, dict):
        for key, item in value.items():
            check_json(item, f"{place}.{key}", depth + 1)
    elif isinstance(value, list):
        for item in value:
            check_json(item, f"{place}[]", depth + 1)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _number(value, place)
    return value


class _Wrong(Exception):
    """What is wrong with a document, and where in it."""


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _number(value: Any, place: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Wrong(f"{_name(place)} must be a number")
    if not (abs(value) < MOST_DIGITS or (isinstance(value, float) and math.isfinite(value))):
        raise _Wrong(f"{_name(place)} is out of range")
    return value


def _name(place: str) -> str:
    return repr(place.lstrip(".")) if place else "the document"


@cache
def _decoder(kind: Any) -> Decoder:
    """A function (value, place) -> value of this kind."""
    if kind is Any:
        return check_json
    if is_dataclass(kind):
        return _Dataclass(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _literal(arguments)
    if _is_union(origin):
        return _union(arguments)
    if origin in (tuple, list):
        return _sequence(origin, arguments)
    if origin is dict:
        return _mapping(arguments[1])
    return _scalar(kind)


def _is_union(origin: Any) -> bool:
    return origin is Union or getattr(origin, "__name__", "") == "UnionType"


def _scalar(kind: Any) -> Decoder:
    def decode(value: Any, place: str) -> Any:
        if kind is float:
            return float(_number(value, place))
        if kind is int:
            if isinstance(value, float):
                raise _Wrong(f"{_name(place)} must be a whole number")
            return _number(value, place)
        if kind is type(None):
            if value is not None:
                raise _Wrong(f"{_name(place)} must be null")
        elif not isinstance(value, kind):
            raise _Wrong(f"{_name(place)} must be {_WORDS.get(kind, kind.__name__)}")
        return value

    return decode


_WORDS = {str: "text", bool: "true or false", dict: "an object", list: "a list"}


def _enum(kind: type[Enum]) -> Decoder:
    known = {member.value: member for member in kind}

    def decode(value: Any, place: str) -> Any:
        if not isinstance(value, str) or value not in known:
            raise _Wrong(f"{_name(place)} must be one of {', '.join(known)}")
        return known[value]

    return decode


def _literal(choices: tuple[Any, ...]) -> Decoder:
    def decode(value: Any, place: str) -> Any:
        if value not in choices:
            raise _Wrong(f"{_name(place)} must be one of {', '.join(map(str, choices))}")
        return value

    return decode


def _union(arguments: tuple[Any, ...]) -> Decoder:
    optional = type(None) in arguments
    decoders = [_decoder(kind) for kind in arguments if kind is not type(None)]

    def decode(value: Any, place: str) -> Any:
        if value is None and optional:
            return None
        for decoder in decoders[:-1]:
            try:
                return decoder(value, place)
            except _Wrong:  # noqa: PERF203 - one of the others may fit
                continue
        return decoders[-1](value, place)

    return decode


def _sequence(origin: type, arguments: tuple[Any, ...]) -> Decoder:
    endless = origin is list or (len(arguments) == 2 and arguments[1] is Ellipsis)
    decoders = [_decoder(kind) for kind in arguments if kind is not Ellipsis]

    def decode(value: Any, place: str) -> Any:
        if not isinstance(value, (list, tuple)) or (not endless and len(value) != len(decoders)):
            raise _Wrong(f"{_name(place)} must be a list" + ("" if endless else f" of {len(decoders)}"))
        every = decoders * len(value) if endless else decoders
        return origin(decoder(item, f"{place}[{i}]") for i, (decoder, item) in enumerate(zip(every, value)))

    return decode


def _mapping(kind: Any) -> Decoder:
    decoder = _decoder(kind)

    def decode(value: Any, place: str) -> Any:
        if not isinstance(value, dict):
            raise _Wrong(f"{_name(place)} must be an object")
        return {key: decoder(item, f"{place}.{key}") for key, item in value.items()}

    return decode


class _Dataclass:
    """Decodes one kind of noun."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._decoders: list[tuple[Field[Any], Decoder]] | None = None

    def __call__(self, value: Any, place: str) -> Any:
        if not isinstance(value, dict):
            raise _Wrong(f"{_name(place)} must be an object")
        if self._decoders is None:  # late: nouns may hold nouns of their own kind
            hints = get_type_hints(self._kind)
            self._decoders = [(field, _decoder(hints[field.name])) for field in fields(self._kind) if field.init]
        decoded: dict[str, Any] = {}
        for field, decoder in self._decoders:
            if field.metadata.get("flat"):
                decoded[field.name] = decoder(value, place)
                continue
            key = next((name for name in (field.name, *field.metadata.get("was", ())) if name in value), None)
            if key is not None:
                decoded[field.name] = decoder(value[key], f"{place}.{key}")
            elif field.default is MISSING and field.default_factory is MISSING:
                raise _Wrong(f"field {field.name!r} is missing{f' in {_name(place)}' if place else ''}")
        try:
            return self._kind(**decoded)
        except ValueError as error:
            raise _Wrong(f"{_name(place)}: {error}") from None

"""Damage for records: one random change to one file of a run's folder, as a bug, a bad disk or an enemy would make it."""

import json
import random
from pathlib import Path

HOSTILE = [
    "null", "true", "-1", "0", "1e308", "-1e-308", "NaN", "Infinity", "1" + "0" * 400, "9" * 5000, "[]", "{}", '""', "[[[]]]",
    '"\\u001b[2J\\u001b]0;owned\\u0007"', '"<script>alert(1)</script>"', '"' + "x" * 100_000 + '"', "[" * 5_000 + "]" * 5_000,
    '{"a":' * 5_000 + "1" + "}" * 5_000, "1.5", "-9223372036854775809", '"2026-99-99T99"', '{"wall": -5}', "[null, null]",
]  # fmt: skip


def mutate(folder: Path, coin: random.Random) -> str:
    """Damage one file of a record in place; a word on what was done."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in (".json", ".jsonl"))
    path = coin.choice(files)
    text = path.read_bytes()
    how = coin.choice(("value", "value", "value", "delete", "rename", "bytes", "cut", "lines"))
    if how == "bytes" and text:
        data = bytearray(text)
        for _ in range(coin.randint(1, 8)):
            data[coin.randrange(len(data))] = coin.randrange(256)
        path.write_bytes(bytes(data))
    elif how == "cut":
        path.write_bytes(text[: coin.randrange(len(text) + 1)])
    elif how == "lines":
        lines = text.splitlines(True)
        coin.shuffle(lines)
        path.write_bytes(b"".join(lines[: coin.randint(0, len(lines))] * coin.choice((1, 1, 3))))
    else:
        path.write_bytes(_in_document(text, path.suffix == ".jsonl", how, coin))
    return f"{how} in {path.relative_to(folder)}"


def _in_document(text: bytes, lines: bool, how: str, coin: random.Random) -> bytes:
    rows = text.splitlines() if lines else [text]
    if not rows or not text:
        return b"{}"
    place = coin.randrange(len(rows))
    try:
        document = json.loads(rows[place])
    except ValueError:
        return text[::-1]
    owner, key = _anywhere(document, coin)
    if owner is None:
        rows[place] = coin.choice(HOSTILE).encode()
    elif how == "delete":
        del owner[key]
        rows[place] = json.dumps(document).encode()
    elif how == "rename" and isinstance(owner, dict):
        owner[key[::-1] + "_"] = owner.pop(key)
        rows[place] = json.dumps(document).encode()
    else:
        owner[key] = "\N{SNOWMAN}"
        rows[place] = json.dumps(document).replace('"\\u2603"', coin.choice(HOSTILE), 1).encode()
    return b"\n".join(rows) + b"\n"


def _anywhere(document, coin):
    """A random place in a document: its owner and key."""
    owner, key = None, None
    while isinstance(document, (dict, list)) and document:
        owner = document
        key = coin.choice(list(document)) if isinstance(document, dict) else coin.randrange(len(document))
        document = owner[key]
        if coin.random() < 0.25:
            break
    return owner, key

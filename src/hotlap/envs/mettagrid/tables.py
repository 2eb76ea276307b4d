"""The rules and the map of one environment as the arrays that its kernel reads at run time, and back."""

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.mettagrid.generate import Generator
from hotlap.envs.mettagrid.maps import ANY, AgentStart, Map
from hotlap.envs.mettagrid.objects import PLACEABLE, Item, recipe_table
from hotlap.envs.mettagrid.options import Rules
from hotlap.envs.spec import Table

GENERATED = 255  # first cell of a map that is made anew for each episode
SETTINGS = ("max_steps", "navigation", "room_rows", "room_columns", "maze")  # then how many objects of each kind
Arrays = dict[str, NDArray[Any]]


def declare(rules: Rules) -> tuple[Table, ...]:
    return (
        Table("map", "|u1", (rules.rows, rules.columns)),
        Table("starts", "<i4", (rules.agents, 2)),  # row * columns + column, and facing; -1: drawn at random
        Table("settings", "<i4", (len(SETTINGS) + len(PLACEABLE),)),
        Table("rates", "<f8", (len(Item),)),
        Table("recipes", "|u1", recipe_table().shape),
    )


def encode(rules: Rules) -> Arrays:
    made = rules.maps if isinstance(rules.maps, Generator) else None
    rooms = made.rooms if made else (1, 1)
    counts = [made.counts[kind] if made else 0 for kind in PLACEABLE]
    settings = [rules.max_steps, rules.navigation, *rooms, bool(made and made.name == "maze"), *counts]
    constant = {"settings": np.array(settings, np.int32), "rates": np.array(rules.rewards), "recipes": recipe_table()}
    return {**encode_map(rules, rules.maps), **constant}


def encode_map(rules: Rules, map: Map | Generator) -> Arrays:
    cells, starts = np.zeros((rules.rows, rules.columns), np.uint8), np.full((rules.agents, 2), -1, np.int32)
    if isinstance(map, Map):
        cells = map.cells
        for number, start in enumerate(map.starts):
            starts[number] = start.cell[0] * rules.columns + start.cell[1], start.facing
    else:
        cells[0, 0] = GENERATED
    return {"map": cells, "starts": starts}


def decode(rules: Rules, tables: Arrays) -> Rules:
    """The rules with what these tables say."""
    max_steps, navigation, room_rows, room_columns, maze, *counts = tables["settings"].tolist()
    maps: Map | Generator = decode_map(rules, tables)
    if tables["map"][0, 0] == GENERATED:
        name = "maze" if maze else "rooms" if (room_rows, room_columns) != (1, 1) else "open"
        maps = Generator(name, rules.rows, rules.columns, dict(zip(PLACEABLE, counts, strict=True)))
    rates = tuple(tables["rates"].tolist())
    return replace(rules, maps=maps, max_steps=max_steps, navigation=bool(navigation), rewards=rates)


def decode_map(rules: Rules, tables: Arrays) -> Map:
    starts = [
        AgentStart((place // rules.columns, place % rules.columns), facing)
        for place, facing in tables["starts"].tolist()
        if place != ANY
    ]
    return Map(tables["map"], tuple(starts))


def to_numbers(tables: Arrays) -> NDArray[np.uint64]:
    """All of them in a row, for checkpoints."""
    data = b"".join(table.tobytes() for table in tables.values())
    return np.frombuffer(data + bytes(-len(data) % 8), np.uint64)


def from_numbers(rules: Rules, numbers: NDArray[np.uint64]) -> Arrays:
    data, tables, begin = np.ascontiguousarray(numbers).tobytes(), {}, 0
    for table in declare(rules):
        size = prod(table.shape) * np.dtype(table.dtype).itemsize
        tables[table.name] = np.frombuffer(data[begin : begin + size], table.dtype).reshape(table.shape)
        begin += size
    return tables

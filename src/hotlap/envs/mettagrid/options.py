"""The options of MettaGrid, checked, and what follows from them: who plays, on which maps, for which rewards."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from hotlap.envs.mettagrid.generate import GENERATORS, Generator
from hotlap.envs.mettagrid.maps import MAX_SIDE, Map, read_map
from hotlap.envs.mettagrid.objects import CONVERTERS, PLACEABLE, Item, Kind

NAVIGATION, ARENA = TASKS = ("navigation", "arena")
MAX_OBJECTS = 250  # agents and converters of one environment
SPARE_CONVERTERS = 32  # a kernel has room for so many at least, for other maps
OBJECTS = {
    NAVIGATION: {"wall": 20, "altar": 8},
    ARENA: {"wall": 16, "block": 4, "mine": 8, "generator": 6, "altar": 4, "lasery": 2, "armory": 2},
}
REWARDS = {NAVIGATION: {"heart": 1.0}, ARENA: {"ore": 0.05, "battery": 0.2, "heart": 1.0}}


@dataclass(frozen=True)
class Rules:
    """What an environment is made with. `maps` is one map for all episodes, or makes one for each."""

    agents: int
    maps: Map | Generator
    rows: int
    columns: int
    navigation: bool
    max_steps: int
    tokens: int
    rewards: tuple[float, ...]  # for each resource
    max_converters: int

    def fits(self, map: Map) -> None:
        """Refuse a map that environments of these rules cannot have."""
        if map.cells.shape != (self.rows, self.columns):
            sizes = f"{map.cells.shape[0]} x {map.cells.shape[1]}, not {self.rows} x {self.columns}"
            raise ValueError(f"mettagrid: this map is {sizes}")
        check_map(map, self.agents, self.navigation)
        if map.converters > self.max_converters:
            raise ValueError(f"mettagrid: this map has {map.converters} converters; there is room for {self.max_converters}")


def check_map(map: Map, agents: int, navigation: bool) -> None:
    if len(map.starts) > agents:
        raise ValueError(f"mettagrid: this map has {len(map.starts)} agents, not {agents} at most")
    if map.floor < agents:
        raise ValueError(f"mettagrid: this map has {map.floor} cells of floor for {agents} agents")
    if navigation and not map.count(Kind.ALTAR):
        raise ValueError("mettagrid: a map for navigation needs an altar (_), to find its heart")


def whole(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"mettagrid: {name} must be a whole number from {least} to {most:,}, not {value!r}")
    return value


def _choice(name: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(f"mettagrid: unknown {name} {value!r}; choose one of {', '.join(known)}")
    return str(value)


def _named(name: str, given: Any, defaults: Mapping[str, float], known: list[str]) -> dict[str, Any]:
    """Values by name, over the task's own."""
    if not isinstance(given, Mapping | None):
        raise ValueError(f"mettagrid: {name} must be {{name: number}}, not {given!r}")
    for key in given or ():
        _choice(f"name in {name}:", key, tuple(known))
    return {**dict.fromkeys(known, 0), **defaults, **(given or {})}


def check(
    task: Any,
    agents: Any,
    map: Any,
    generator: Any,
    rows: Any,
    columns: Any,
    objects: Any,
    rewards: Any,
    max_steps: Any,
    tokens: Any,
) -> Rules:
    """The rules that these options ask for; ValueError with one line if they cannot be."""
    navigation = _choice("task", task, TASKS) == NAVIGATION
    most_agents = MAX_OBJECTS - SPARE_CONVERTERS
    rates = _named("rewards", rewards, REWARDS[task], [item.name.lower() for item in Item])
    for name, rate in rates.items():
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not isfinite(rate):
            raise ValueError(f"mettagrid: the reward for {name} must be a number, not {rate!r}")
    if map is None:
        count = whole("agents", 4 if agents is None else agents, 1, most_agents)
        made = _generator(generator, rows, columns, objects, task, count)
        source: Map | Generator = made
        shape, converters = (made.rows, made.columns), sum(made.counts[kind] for kind in CONVERTERS)
    else:
        if objects is not None:
            raise ValueError("mettagrid: objects are of generated maps, and here map gives another one")
        source = read_map(map)
        count = whole("agents", (len(source.starts) or 4) if agents is None else agents, 1, most_agents)
        check_map(source, count, navigation)
        shape, converters = source.cells.shape, source.converters
    if count + converters > MAX_OBJECTS:
        raise ValueError(f"mettagrid: {count} agents and {converters} converters are too many; {MAX_OBJECTS} is the most")
    return Rules(
        count,
        source,
        *shape,
        navigation,
        whole("max_steps", max_steps, 1, 1_000_000),
        whole("tokens", tokens, 16, 1_024),
        tuple(float(rates[item.name.lower()]) for item in Item),
        max(converters, min(SPARE_CONVERTERS, MAX_OBJECTS - count)),
    )


def _generator(name: Any, rows: Any, columns: Any, objects: Any, task: str, agents: int) -> Generator:
    _choice("generator", name, GENERATORS)
    whole("rows", rows, 3, MAX_SIDE)
    whole("columns", columns, 3, MAX_SIDE)
    counts = _named("objects", objects, OBJECTS[task], [kind.name.lower() for kind in PLACEABLE])
    for key, value in counts.items():
        whole(f"objects[{key!r}]", value, int(task == NAVIGATION and key == "altar"), MAX_SIDE * MAX_SIDE)
    made = Generator(name, rows, columns, {kind: counts[kind.name.lower()] for kind in PLACEABLE})
    total = sum(counts.values())
    if total > made.capacity:
        message = f"a map of {rows} x {columns} ({name}) has room for {made.capacity} objects, not for {total}"
        raise ValueError(f"mettagrid: {message}: {', '.join(f'{value} {key}' for key, value in counts.items() if value)}")
    if made.floor < agents:
        raise ValueError(f"mettagrid: a map of {rows} x {columns} ({name}) may have too little floor for {agents} agents")
    return made

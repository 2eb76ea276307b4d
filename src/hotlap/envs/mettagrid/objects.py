"""What a MettaGrid is made of: kinds of objects, resources, recipes, actions, and the features that agents see."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Cell = tuple[int, int]  # row, column


class Kind(IntEnum):
    """Kinds of objects. Their numbers are also the first features of observations."""

    WALL = 0
    BLOCK = 1
    AGENT = 2
    MINE = 3
    GENERATOR = 4
    ALTAR = 5
    LASERY = 6
    ARMORY = 7


SYMBOLS = {"#": Kind.WALL, "s": Kind.BLOCK, "m": Kind.MINE, "n": Kind.GENERATOR, "_": Kind.ALTAR, "L": Kind.LASERY}
SYMBOLS["A"] = Kind.ARMORY
FLOOR_SYMBOL, AGENT_SYMBOL = ".", "@"
PLACEABLE = tuple(SYMBOLS.values())  # what a map holds besides agents, in the order in which generators place it
CONVERTERS = PLACEABLE[2:]


class Item(IntEnum):
    """Resources."""

    ORE = 0
    BATTERY = 1
    HEART = 2
    LASER = 3
    ARMOR = 4


@dataclass(frozen=True)
class Recipe:
    """What a converter takes and makes, and in how many steps. What it takes it does not make."""

    takes: tuple[int, ...]  # of each resource
    makes: tuple[int, ...]
    steps: int


RECIPES = {
    Kind.MINE: Recipe((0, 0, 0, 0, 0), (1, 0, 0, 0, 0), 10),
    Kind.GENERATOR: Recipe((1, 0, 0, 0, 0), (0, 1, 0, 0, 0), 10),
    Kind.ALTAR: Recipe((0, 3, 0, 0, 0), (0, 0, 1, 0, 0), 10),
    Kind.LASERY: Recipe((1, 1, 0, 0, 0), (0, 0, 0, 1, 0), 10),
    Kind.ARMORY: Recipe((3, 0, 0, 0, 0), (0, 0, 0, 0, 1), 10),
}
LIMIT = 200  # of each resource that an agent can hold
STOCK = 6  # of each resource that a converter can hold

DIRECTIONS = ("up", "right", "down", "left")
DELTA = ((-1, 0), (0, 1), (1, 0), (0, -1))
COLOURS = ("red", "green", "blue", "yellow")
FREEZE = 10  # steps for which an agent that was hit cannot act
REACH = 3  # how far an attack goes


class Act(IntEnum):
    """The first of each group of actions; the others of FACE and COLOUR follow it."""

    NOOP = 0
    FORWARD = 1
    BACKWARD = 2
    FACE = 3
    PUT = 7
    GET = 8
    ATTACK = 9
    SWAP = 10
    COLOUR = 11


ACTIONS = (
    *("noop", "forward", "backward"),
    *(f"face {direction}" for direction in DIRECTIONS),
    *("put", "get", "attack", "swap"),
    *(f"colour {colour}" for colour in COLOURS),
)

FEATURES = (
    *(kind.name.lower() for kind in Kind),
    *("facing", "colour", "frozen", "working"),
    *(item.name.lower() for item in Item),
    *("time", "last_action"),
)
FACING, COLOUR, FROZEN, WORKING, ITEMS = range(len(Kind), len(Kind) + 5)
TIME, LAST_ACTION = ITEMS + len(Item), ITEMS + len(Item) + 1
LONGEST_WORK = max(recipe.steps for recipe in RECIPES.values())
FEATURE_MAX = (  # the largest value that each feature has
    *([1] * len(Kind)),
    *(len(DIRECTIONS), len(COLOURS), FREEZE, LONGEST_WORK),
    *([LIMIT] * len(Item)),
    *(255, len(ACTIONS)),
)


def beside(cell: Cell, direction: int, distance: int = 1) -> Cell:
    down, right = DELTA[direction % 4]
    return cell[0] + down * distance, cell[1] + right * distance


def recipe_table() -> NDArray[np.uint8]:
    """As the kernel reads it, a row for each kind of converter: what it takes, what it makes, steps."""
    recipes = [RECIPES[kind] for kind in CONVERTERS]
    return np.array([[*recipe.takes, *recipe.makes, recipe.steps] for recipe in recipes], np.uint8)


def constants() -> dict[str, int]:
    """All of these numbers that the kernel must know, as C macros."""
    values = {"LIMIT": LIMIT, "STOCK": STOCK, "FREEZE": FREEZE, "REACH": REACH, "COLOURS": len(COLOURS)}
    values |= {"RESOURCES": len(Item), "KINDS": len(Kind)}
    values |= {f"KIND_{kind.name}": int(kind) for kind in Kind}
    values |= {f"ITEM_{item.name}": int(item) for item in Item}
    values |= {f"ACT_{act.name}": int(act) for act in Act}
    features = {"FACING": FACING, "COLOUR": COLOUR, "FROZEN": FROZEN, "WORKING": WORKING, "ITEMS": ITEMS}
    features |= {"TIME": TIME, "LAST_ACTION": LAST_ACTION}
    return values | {f"FEATURE_{name}": number for name, number in features.items()}

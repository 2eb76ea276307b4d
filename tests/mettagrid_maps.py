"""Small crowded maps of MettaGrid for tests, actions that make things happen, and what agents should see."""

import numpy as np
from hypothesis import strategies as st

from hotlap.envs.mettagrid.objects import ACTIONS, COLOUR, FACING, FROZEN, ITEMS, SYMBOLS, WORKING, Act, Kind

SIZE = (9, 12)
CROWDED = """
############
#@m.n._.L.A#
#..........#
#.s.m.n._..#
#....@.....#
#.L.A.m.n..#
#........@.#
#._.m.n.L.A#
############
"""
WORKSHOP = """
############
#.m..m..m..#
#n@Ln@L_@n.#
#.s..A..#..#
#..........#
#..........#
#..........#
#..........#
############
"""  # all that agents need is beside them, and they are within reach of each other


@st.composite
def crowded_maps(draw):
    """Maps of one size, with anything anywhere, floor for three agents, and at most as many converters as have room where the
    first map was CROWDED."""
    rows, columns = SIZE
    inner = (rows - 2) * (columns - 2)
    cells = draw(st.lists(st.sampled_from("........#smn_LA"), min_size=inner, max_size=inner))
    floor = draw(st.lists(st.integers(0, inner - 1), min_size=3, max_size=3, unique=True))
    for place in [place for place, cell in enumerate(cells) if cell in "mn_LA"][32:]:
        cells[place] = "."
    for place in floor:
        cells[place] = draw(st.sampled_from(".@"))
    lines = ["#" + "".join(cells[i : i + columns - 2]) + "#" for i in range(0, inner, columns - 2)]
    return "\n".join(["#" * columns, *lines, "#" * columns])


def eager(mask, rng):
    """Random legal actions [rows], the rarer ones rather than turns and colours."""
    weight = np.ones(len(ACTIONS))
    weight[[Act.PUT, Act.GET, Act.ATTACK, Act.SWAP]] = 20
    weight[Act.FORWARD] = 5
    weight[Act.COLOUR :] = 0.3
    return (rng.random(mask.shape) ** (1 / weight) * mask).argmax(1)


def expected_window(env, agent):
    """(feature, value) pairs by cell, from the picture of the world instead of its tokens."""
    lines, (row, column) = env.render().splitlines(), env.world.agents[agent].cell
    seen = {}
    for i, j in np.ndindex(11, 11):
        cell = (row + i - 5, column + j - 5)
        inside = 0 <= cell[0] < env.rules.rows and 0 <= cell[1] < env.rules.columns
        symbol = lines[cell[0]][cell[1]] if inside else "."
        if symbol == ".":
            continue
        thing = env.world.things[cell]
        if symbol in SYMBOLS:
            features = [(int(SYMBOLS[symbol]), 1)]
            features += [(WORKING, thing.working)] if getattr(thing, "working", 0) else []
        else:
            features = [(int(Kind.AGENT), 1), (FACING, "^>v<".index(symbol) + 1), (COLOUR, thing.colour + 1)]
            features += [(FROZEN, thing.frozen)] if thing.frozen else []
        held = enumerate(getattr(thing, "items", ()))
        seen[i, j] = tuple(features + [(ITEMS + item, count) for item, count in held if count])
    return seen

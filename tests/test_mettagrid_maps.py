"""MettaGrid's maps: files and what can be wrong with them, generators, tokens of others, pictures."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hotlap
from hotlap.envs.mettagrid.generate import GENERATORS, Generator
from hotlap.envs.mettagrid.maps import AgentStart, read_map
from hotlap.envs.mettagrid.objects import PLACEABLE, Kind
from hotlap.envs.mettagrid.reference import MettaGrid
from hotlap.envs.mettagrid.tokens import Seen, decode, encode, pack, to_box
from hotlap.envs.rng import Rng

ROOM = "#####\n#@._#\n#...#\n#####"


def test_a_map_in_a_file(tmp_path):
    path = tmp_path / "room.map"
    path.write_text(f"\r\n{ROOM}\r\n\r\nagent 2 3 left\r\nagent 2 1\r\n")
    map = read_map(path)
    assert map.cells.tolist() == [[1] * 5, [1, 0, 0, 6, 1], [1, 0, 0, 0, 1], [1] * 5]
    assert map.starts == (AgentStart((1, 1)), AgentStart((2, 3), 3), AgentStart((2, 1)))
    assert map.count(Kind.ALTAR) == map.converters == 1
    env = MettaGrid(map=str(path))
    assert env.env_spec.agents == 3
    env.reset(seed=0)
    assert [who.cell for who in env.world.agents] == [(1, 1), (2, 3), (2, 1)] and env.world.agents[1].facing == 3


BAD_MAPS = {
    "": "line 1: there is no map: it is empty",
    "\n \n\n": "line 1: there is no map: it is empty",
    "#####\n#####\n#####": "line 1: this map has no floor",
    "\n#####\n#.@.#\n#####\n\nagent 1 1\nagent 1 2 up": "line 7: two agents on one cell: row 1, column 2",
    "#####\n#...#\n#####\nagent 1 1\nagent 1 1": "line 5: two agents on one cell: row 1, column 1",
    "#####\n#.?.#\n#####": r"line 2: unknown symbol '\?' in column 2; a map is made of #smn_LA.@",
    "#####\n#. .#\n#####": "line 2: unknown symbol ' '",
    "#####\n#..#\n#####": "line 2: 4 columns, but line 1 has 5",
    "#####\n#...#\n##.##": "line 3: the border must be wall, also in column 2",
    "##\n##": "line 1: a map has at least 3 lines of 3, this one 2 of 2",
    "agent 1 1\n#####": "line 1: the map comes first",
    ".\n": "line 1: a map has at least 3 lines",
    "#" * 10_000 + "\n": "line 1: 10,000 columns; a map has at most 128 lines of 128",
    "###\n" * 10_000: "line 129: more than 128 lines; a map has at most 128 lines of 128",
    "#####\n#...#\n#####\nagent 0 1": "line 4: there is no floor in row 0, column 1",
    "#####\n#...#\n#####\nagent 1 99999999999999999999": "line 4: there is no floor in row 1",
    "#####\n#...#\n#####\nagent one two": "line 4: below the map there can only be lines such as: agent 3 4",
    "#####\n#...#\n#####\nagent 1 1 north": "line 4: below the map",
    "#####\n#...#\n#####\n\n#": "line 5: below the map",
    "#####\n#...#\n#####\n" + "\n" * 70_000: r"line \d+: the text goes on beyond 65,536 bytes",
}


@pytest.mark.parametrize("text", BAD_MAPS, ids=range(len(BAD_MAPS)))
def test_bad_maps_are_refused_with_the_line(text, tmp_path):
    path = tmp_path / "bad.map"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"mettagrid: bad\.map, {BAD_MAPS[text]}") as error:
        hotlap.make_vec("mettagrid", 1, map=str(path))
    assert "\n" not in str(error.value)


def test_other_bad_files(tmp_path):
    path = tmp_path / "bad.map"
    path.write_bytes(b"#####\n#.\xff.#\n#####")
    with pytest.raises(ValueError, match=r"bad\.map, line 2: this is not text in UTF-8"):
        read_map(path)
    path.write_bytes((b"." * 10_000 + b"\n") * 100)  # of 10,000 lines; only the beginning is read
    with pytest.raises(ValueError, match="line 1: 10,000 columns"):
        read_map(path)
    with pytest.raises(ValueError, match=r"cannot read the map .*none\.map: No such file"):
        read_map(tmp_path / "none.map")
    with pytest.raises(ValueError, match="cannot read the map"):
        read_map(tmp_path)
    with pytest.raises(ValueError, match="a map is a path, or text with line breaks, not int"):
        read_map(3)


@settings(max_examples=150)
@given(st.lists(st.text("##..@m_?\r\ufeffé", max_size=5) | st.sampled_from(["#####", "#...#", "agent 1 2", "agent 1 2 up"])))
def test_any_text_is_a_map_or_refused_with_the_line(lines):
    try:
        map = read_map("\n".join(lines) + "\n")
    except ValueError as error:
        assert str(error).startswith("mettagrid: map, line ") and "\n" not in str(error)
    else:
        assert map.floor and len({start.cell for start in map.starts}) == len(map.starts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agents": 0}, "agents must be a whole number from 1 to 218"),
        ({"task": "war"}, "unknown task 'war'; choose one of navigation, arena"),
        ({"generator": "cave"}, "unknown generator 'cave'; choose one of open, rooms, maze"),
        ({"rows": 129}, "rows must be a whole number from 3 to 128"),
        ({"rows": 6, "columns": 6}, r"6 x 6 \(open\) has room for 1 objects, not for 28: 20 wall, 8 altar"),
        ({"objects": {"tree": 3}}, "unknown name in objects: 'tree'"),
        ({"objects": {"altar": 0}}, "must be a whole number from 1"),
        ({"objects": 3}, "objects must be"),
        ({"rewards": {"gold": 3}}, "unknown name in rewards: 'gold'"),
        ({"rewards": {"ore": float("nan")}}, "the reward for ore must be a number, not nan"),
        ({"tokens": 5}, "tokens must be a whole number from 16"),
        ({"max_steps": 0}, "max_steps must be"),
        ({"map": ROOM, "agents": 9}, "5 cells of floor for 9 agents"),
        ({"map": ROOM, "objects": {"altar": 3}}, "objects are of generated maps"),
        ({"map": ROOM.replace(".", "@"), "agents": 2}, "this map has 5 agents, not 2 at most"),
        ({"map": ROOM.replace("_", ".")}, "a map for navigation needs an altar"),
        ({"rows": 5, "columns": 7, "objects": {"wall": 0, "altar": 1}, "agents": 15}, "too little floor for 15 agents"),
        ({"agents": 218, "objects": {"wall": 0, "altar": 40}}, "218 agents and 40 converters are too many; 250 is the most"),
        ({"size": 3}, "unknown option"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        hotlap.make_vec("mettagrid", 1, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"map": ROOM.replace("#####", "#####\n#...#", 1)}, "this map is 5 x 5, not 4 x 5"),
        ({"map": ROOM.replace("_", ".")}, "needs an altar"),
        ({"walls": 3}, "unknown reset option 'walls'"),
    ],
)
def test_wrong_starts_are_refused(options, message):
    env = hotlap.make_vec("mettagrid", 2, turbo=False, map=ROOM)
    with pytest.raises(ValueError, match=message):
        env.reset(options=options)


# -- generators --


def reachable(cells, start):
    reached, edge = set(), [start]
    while edge:
        row, column = edge.pop()
        if (row, column) not in reached and not cells[row, column]:
            reached.add((row, column))
            edge += [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
    return reached


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("size", [(32, 32), (17, 40), (7, 7)])
def test_all_of_a_generated_map_can_be_reached(name, size):
    rng = Rng(3)
    capacity = Generator(name, *size, {}).capacity
    for total in (0, 1, capacity):
        counts = {kind: total // len(PLACEABLE) for kind in PLACEABLE}
        counts[Kind.ALTAR] += total % len(PLACEABLE)
        generator = Generator(name, *size, counts)
        for _ in range(4):
            cells = generator.make(rng)
            assert {kind: int((cells == kind + 1).sum()) for kind in PLACEABLE[1:]} == dict(list(counts.items())[1:])
            floor = {(row, column) for row, column in np.argwhere(cells == 0).tolist()}
            assert len(floor) >= generator.floor > 0
            assert reachable(cells, min(floor)) == floor
            assert (cells[[0, -1]] == 1).all() and (cells[:, [0, -1]] == 1).all()


def test_rooms_and_mazes():
    rooms, maze = (Generator(name, 32, 32, {}) for name in ("rooms", "maze"))
    assert rooms.rooms == (3, 3) and rooms.lines == ([0, 10, 20, 31], [0, 10, 20, 31])
    assert maze.rooms == (7, 7)
    cells = rooms.make(Rng(0))
    assert (cells[10] == 0).sum() == (cells[:, 20] == 0).sum() == 3  # one door for each pair of neighbours
    assert not np.array_equal(cells, rooms.make(Rng(1)))
    np.testing.assert_array_equal(cells, rooms.make(Rng(0)))


# -- tokens and pictures --


def test_tokens_of_any_kind_are_decoded():
    obs = encode([(0xFE, 3, 9), (pack(10, 2), 7, 1), (pack(10, 2), 7, 4), (pack(0, 0), 200, 255)], 6)
    assert decode(obs) == Seen({(10, 2): ((7, 1), (7, 4)), (0, 0): ((200, 255),)}, ((3, 9),))
    assert obs[4:].tolist() == [[255] * 3] * 2
    boxes, everywhere = to_box(np.stack([obs, encode([], 6)]), 201)
    assert boxes.shape == (2, 11, 11, 201) and boxes[0, 0, 0, 200] == 255 and boxes[0, 10, 2, 7] == 4
    assert np.count_nonzero(boxes) == 2 and everywhere[0, 3] == 9 and np.count_nonzero(everywhere) == 1


def test_drawn_for_people():
    env = MettaGrid("arena", map="#######\n#sm.nL#\n#_A...#\n#######\nagent 1 3 up\nagent 2 5 left")
    env.reset(seed=0)
    second = env.world.agents[1]
    second.items, second.frozen, second.hearts = [0, 2, 1, 0, 0], 7, 3
    assert env.render().splitlines() == [
        "#######",
        "#sm^nL#",
        "#_A..<#",
        "#######",
        "^ agent 1   hearts taken 0",
        "< agent 2   hearts taken 3  battery 2  heart 1  frozen 7",
    ]
    assert env.draw()[2][5] == ("<", "dim green")
    assert [env.describe_action(action) for action in (0, 3, 9, 14)] == ["noop", "face up", "attack", "colour yellow"]

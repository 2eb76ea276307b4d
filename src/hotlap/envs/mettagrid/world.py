"""The state of one MettaGrid, and what actions and time do to it."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.mettagrid.generate import draw_cell
from hotlap.envs.mettagrid.maps import FLOOR, Map
from hotlap.envs.mettagrid.objects import (
    ACTIONS,
    COLOURS,
    DIRECTIONS,
    FREEZE,
    LIMIT,
    REACH,
    RECIPES,
    STOCK,
    Act,
    Cell,
    Item,
    Kind,
    beside,
)
from hotlap.envs.rng import Rng


def _nothing() -> list[int]:
    return [0] * len(Item)


@dataclass
class Thing:
    """A wall or a block."""

    kind: Kind


@dataclass
class Converter(Thing):
    """A mine, generator, altar, lasery or armory."""

    working: int = 0  # steps until its product is there
    items: list[int] = field(default_factory=_nothing)  # what it will use and what it has made


@dataclass
class Agent(Thing):
    cell: Cell
    facing: int
    colour: int
    frozen: int = 0  # steps
    last_action: int = 0  # + 1; 0: none yet
    items: list[int] = field(default_factory=_nothing)
    gained: list[int] = field(default_factory=_nothing)  # in this step, by taking and by attacks
    hearts: int = 0  # taken from altars
    hits: int = 0  # attacks that froze somebody


class World:
    """Everything on a map, by cell. Cells that are not in `things` are floor."""

    def __init__(self, map: Map, count: int, navigation: bool, rng: Rng) -> None:
        self.rows, self.columns = map.cells.shape
        self.navigation, self.steps = navigation, 0
        self.things: dict[Cell, Thing] = {}
        self.converters: list[Converter] = []
        for row, column in np.argwhere(map.cells != FLOOR).tolist():
            self.add((row, column), Kind(int(map.cells[row, column]) - 1))
        if navigation:
            for altar in self.altars:
                altar.items[Item.HEART] = 1
        self.hearts = len(self.altars) if navigation else 0  # that there are to find
        self.agents: list[Agent] = []
        self._place_agents(map, count, rng)

    def add(self, cell: Cell, kind: Kind) -> Thing:
        thing = Converter(kind) if kind in RECIPES else Thing(kind)
        if isinstance(thing, Converter):
            self.converters.append(thing)
        self.things[cell] = thing
        return thing

    @property
    def altars(self) -> list[Converter]:
        return [converter for converter in self.converters if converter.kind == Kind.ALTAR]

    @property
    def hearts_left(self) -> int:
        return sum(altar.items[Item.HEART] for altar in self.altars)

    def _place_agents(self, map: Map, count: int, rng: Rng) -> None:
        taken = {start.cell for start in map.starts}
        for number in range(count):
            given = map.starts[number] if number < len(map.starts) else None
            cell = given.cell if given else draw_cell(rng, map.cells.shape, lambda *cell: self._free(cell, taken))
            facing = given.facing if given and given.facing >= 0 else rng.below(len(DIRECTIONS))
            agent = Agent(Kind.AGENT, cell, facing, number % len(COLOURS))
            taken.add(cell)
            self.things[cell] = agent
            self.agents.append(agent)

    def _free(self, cell: Cell, taken: set[Cell]) -> bool:
        return cell not in self.things and cell not in taken

    # -- what an agent can do --

    def ahead(self, agent: Agent) -> Thing | None:
        return self.things.get(beside(agent.cell, agent.facing))

    def mask(self, agent: Agent) -> NDArray[np.bool_]:
        return np.array([self.can(agent, action) for action in range(len(ACTIONS))])

    def can(self, agent: Agent, action: int) -> bool:
        """Whether an action would do something now. Doing nothing is always possible."""
        if action == Act.NOOP or agent.frozen:
            return action == Act.NOOP
        if action in (Act.FORWARD, Act.BACKWARD):
            return self._target(agent, action) not in self.things
        if action < Act.PUT:
            return agent.facing != action - Act.FACE
        if action == Act.PUT:
            return any(self._put(agent))
        if action == Act.GET:
            return any(self._got(agent))
        if action == Act.ATTACK:
            return agent.items[Item.LASER] > 0 and self._victim(agent) is not None
        if action == Act.SWAP:
            thing = self.ahead(agent)
            return thing is not None and (thing.kind == Kind.BLOCK or (isinstance(thing, Agent) and thing.frozen > 0))
        return agent.colour != action - Act.COLOUR

    def _target(self, agent: Agent, action: int) -> Cell:
        return beside(agent.cell, agent.facing, 1 if action == Act.FORWARD else -1)

    def _put(self, agent: Agent) -> list[int]:
        """How much of each resource the converter ahead would accept."""
        thing = self.ahead(agent)
        if not isinstance(thing, Converter):
            return _nothing()
        takes = RECIPES[thing.kind].takes
        return [min(agent.items[item], STOCK - thing.items[item]) if takes[item] else 0 for item in Item]

    def _got(self, agent: Agent) -> list[int]:
        """How much of each resource the agent would get from the converter ahead."""
        thing = self.ahead(agent)
        if not isinstance(thing, Converter):
            return _nothing()
        makes = RECIPES[thing.kind].makes
        return [min(thing.items[item], LIMIT - agent.items[item]) if makes[item] else 0 for item in Item]

    def _victim(self, agent: Agent) -> Agent | None:
        """The first agent ahead that is not frozen, row by row; in each straight on, then to the left, then to the right."""
        for distance in range(1, REACH + 1):
            middle = beside(agent.cell, agent.facing, distance)
            for cell in (middle, beside(middle, agent.facing + 3), beside(middle, agent.facing + 1)):
                thing = self.things.get(cell)
                if isinstance(thing, Agent) and not thing.frozen:
                    return thing
        return None

    # -- a step --

    def step(self, actions: list[int]) -> None:
        for agent in self.agents:
            agent.frozen = max(0, agent.frozen - 1)
            agent.gained = _nothing()
        for turn in range(len(self.agents)):
            number = (self.steps + turn) % len(self.agents)
            self.act(self.agents[number], actions[number])
        if not self.navigation:
            for converter in self.converters:
                self.work(converter)
        self.steps += 1

    def act(self, agent: Agent, action: int) -> None:
        agent.last_action = action + 1
        if not self.can(agent, action) or action == Act.NOOP:
            return
        if action in (Act.FORWARD, Act.BACKWARD):
            self._move(agent, self._target(agent, action))
        elif action < Act.PUT:
            agent.facing = action - Act.FACE
        elif action == Act.PUT:
            self._exchange(agent, [-amount for amount in self._put(agent)])
        elif action == Act.GET:
            amounts = self._got(agent)
            self._exchange(agent, amounts)
            agent.gained = [gained + amount for gained, amount in zip(agent.gained, amounts, strict=True)]
            agent.hearts += amounts[Item.HEART]
        elif action == Act.ATTACK:
            self._attack(agent)
        elif action == Act.SWAP:
            self._swap(agent)
        else:
            agent.colour = action - Act.COLOUR

    def _move(self, agent: Agent, cell: Cell) -> None:
        del self.things[agent.cell]
        self.things[cell] = agent
        agent.cell = cell

    def _exchange(self, agent: Agent, amounts: list[int]) -> None:
        """Take from the converter ahead; less than 0: give to it."""
        converter = self.ahead(agent)
        assert isinstance(converter, Converter)
        for item in Item:
            converter.items[item] -= amounts[item]
            agent.items[item] += amounts[item]

    def _attack(self, agent: Agent) -> None:
        victim = self._victim(agent)
        assert victim is not None
        agent.items[Item.LASER] -= 1
        if victim.items[Item.ARMOR]:
            victim.items[Item.ARMOR] -= 1
            return
        victim.frozen = FREEZE
        agent.hits += 1
        for item in Item:
            amount = min(victim.items[item], LIMIT - agent.items[item])
            for who, change in ((victim, -amount), (agent, amount)):
                who.items[item] += change
                who.gained[item] += change

    def _swap(self, agent: Agent) -> None:
        here, there = agent.cell, beside(agent.cell, agent.facing)
        other = self.things[there]
        self._move(agent, there)
        self.things[here] = other
        if isinstance(other, Agent):
            other.cell = here

    def work(self, converter: Converter) -> None:
        """One step of time: its product comes, and it begins the next one if it can."""
        recipe = RECIPES[converter.kind]
        if converter.working:
            converter.working -= 1
            if not converter.working:
                converter.items = [held + made for held, made in zip(converter.items, recipe.makes, strict=True)]
        if not converter.working and all(
            held >= taken and (not made or held + made <= STOCK)
            for held, taken, made in zip(converter.items, recipe.takes, recipe.makes, strict=True)
        ):
            converter.items = [held - taken for held, taken in zip(converter.items, recipe.takes, strict=True)]
            converter.working = recipe.steps

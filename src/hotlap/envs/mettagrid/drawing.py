"""One MettaGrid drawn for people."""

from hotlap.envs.mettagrid.objects import COLOURS, FLOOR_SYMBOL, SYMBOLS, Cell, Item, Kind
from hotlap.envs.mettagrid.world import Agent, Converter, World
from hotlap.envs.picture import Picture

ARROWS = "^>v<"
STYLES = {Kind.WALL: "blue", Kind.BLOCK: "white"}
SYMBOL_OF = {kind: symbol for symbol, kind in SYMBOLS.items()}


def picture(world: World) -> Picture:
    """The map: agents as arrows in their colour, converters bold if they hold a product; then what each agent has."""
    lines: Picture = [[_cell(world, (row, column)) for column in range(world.columns)] for row in range(world.rows)]
    for number, agent in enumerate(world.agents):
        held = "  ".join(f"{item.name.lower()} {agent.items[item]}" for item in Item if agent.items[item])
        state = f"frozen {agent.frozen}" if agent.frozen else ""
        text = "  ".join(part for part in (f"hearts taken {agent.hearts}", held, state) if part)
        lines.append([(ARROWS[agent.facing], _style(agent)), (f" agent {number + 1:<3} {text}", "")])
    return lines


def _style(agent: Agent) -> str:
    return f"{'dim' if agent.frozen else 'bold'} {COLOURS[agent.colour]}"


def _cell(world: World, cell: Cell) -> tuple[str, str]:
    thing = world.things.get(cell)
    if thing is None:
        return FLOOR_SYMBOL, "dim"
    if isinstance(thing, Agent):
        return ARROWS[thing.facing], _style(thing)
    if isinstance(thing, Converter):
        return SYMBOL_OF[thing.kind], "bold magenta" if any(thing.items) else "magenta"
    return SYMBOL_OF[thing.kind], STYLES[thing.kind]

"""Games. One folder each: `reference.py` (the rules in Python) and `kernel.h` (the same rules in C)."""

from typing import Any

GAMES = {
    "snake": "hotlap.envs.snake.reference:Snake",
    "cartpole": "hotlap.envs.cartpole.reference:CartPole",
    "hearts": "hotlap.envs.hearts.reference:Hearts",
    "connect4": "hotlap.envs.connect4.reference:ConnectFour",
    "predators": "hotlap.envs.predators.reference:Predators",
    "petri": "hotlap.envs.petri.reference:PetriNet",
    "cage2": "hotlap.envs.cage2.reference:Cage2",
    "mettagrid": "hotlap.envs.mettagrid.reference:MettaGrid",
}


def load_game(name: str) -> Any:
    """The reference class of a game: one of GAMES, or "module:Class" of somebody else's."""
    if name not in GAMES and ":" not in name:
        raise ValueError(f"unknown environment {name!r}; choose one of {', '.join(GAMES)}")
    from pkgutil import resolve_name

    return resolve_name(GAMES.get(name, name))

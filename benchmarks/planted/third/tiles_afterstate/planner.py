"""One-ply lookahead: every legal move with the board that follows it."""
import copy


def lookahead(game):
    options = []
    for direction in range(4):
        child = copy.deepcopy(game)
        points, changed = child.shift(direction)
        if changed:
            options.append((points, child))
    return options

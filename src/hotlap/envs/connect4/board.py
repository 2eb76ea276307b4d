"""The board of Connect Four, and every row of four cells on it."""

Cell = tuple[int, int]  # row, from the top, and column

ROWS, COLUMNS = 6, 7
LENGTH = 4  # stones in a row that win
WAYS = ((0, 1), (1, 0), (1, 1), (1, -1))  # along a row, a column and both diagonals


def _line(row: int, column: int, down: int, right: int) -> tuple[Cell, ...]:
    return tuple((row + i * down, column + i * right) for i in range(LENGTH))


LINES = [
    line
    for row in range(ROWS)
    for column in range(COLUMNS)
    for line in (_line(row, column, *way) for way in WAYS)
    if line[-1][0] < ROWS and 0 <= line[-1][1] < COLUMNS
]

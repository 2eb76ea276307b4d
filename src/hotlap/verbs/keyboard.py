"""Keys of a terminal, as they are pressed, without waiting for Enter."""

import os
import re
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ARROWS = {"a": "up", "b": "down", "c": "right", "d": "left"}  # the last letter of what a terminal sends
LETTERS = {"w": "up", "s": "down", "d": "right", "a": "left", "q": "quit", "p": "pause", " ": "pause"}
_KEY = re.compile(r"\x1b[\[o]([abcd])|([wsdaqp ])")


def key_of(text: str) -> str:
    """The last key in what was typed, by its name; "" if it means nothing here."""
    pressed = [ARROWS.get(arrow) or LETTERS[letter] for arrow, letter in _KEY.findall(text.lower())]
    return pressed[-1] if pressed else ""


@contextmanager
def raw_keys() -> Iterator[Callable[[float], str]]:
    """A function that waits so many seconds and gives the last key pressed meanwhile, or "". Ctrl-C works as ever."""
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def wait(seconds: float) -> str:
        until, pressed = time.monotonic() + seconds, ""
        while (left := until - time.monotonic()) > 0:
            if select.select([terminal], [], [], left)[0]:
                typed = os.read(terminal, 64).decode(errors="replace")
                if not typed:  # the terminal went away
                    return "quit"
                pressed = key_of(typed) or pressed
        return pressed

    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)  # what was typed already counts
        yield wait
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)

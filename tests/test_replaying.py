"""Recorded calls of a function, replayed against its rewrite: what is the same, what can be replayed, and a whole run."""

import json
import textwrap

import numpy as np
import pytest
import torch

from hotlap.interventions import replaying
from hotlap.interventions.code import Code
from hotlap.interventions.edit import edits_between
from hotlap.interventions.intervention import Intervention
from hotlap.investigate.replay import changed_function, projected, replay
from hotlap.investigate.sources import Sources
from hotlap.record.finding import Finding, Projection
from hotlap.record.hypothesis import Replay
from hotlap.target.target import Script, Variant

SLOW = """\
import numpy as np

SCALE = 2


class Board:
    def __init__(self):
        self.cells = np.arange(400.0)
        self.asked = 0

    def total(self, first):
        self.asked += 1
        s = 0.0
        for x in self.cells[first:]:
            s += float(x)
        return SCALE * s


def norm(values):
    return sum(v * v for v in values)


if __name__ == "__main__":
    board = Board()
    while True:
        board.total(3)
        norm(board.cells)
"""
QUICK = SLOW.replace(
    """        s = 0.0
        for x in self.cells[first:]:
            s += float(x)
        return SCALE * s
""",
    """        return SCALE * added(self.cells[first:])
""",
).replace("class Board", "def added(cells):\n    return float(cells.sum())\n\n\nclass Board")


def module(text):
    scope = {"__name__": "board"}
    exec(text, scope)
    return scope


def test_a_method_and_the_function_that_its_rewrite_adds():
    slow = module(SLOW)
    rewrite = replaying.rewritten(slow["Board"].total, "Board.total", SLOW, QUICK)
    calls = [((slow["Board"](), first), {}) for first in range(4)]
    result = replaying.compared(calls, slow["Board"].total, rewrite)
    assert result["calls"] == 4 and result["same"]
    assert 0 < result["after"] < result["before"]
    assert [call[0][0].asked for call in calls] == [0] * 4  # copies were called


@pytest.mark.parametrize(
    "wrong",
    [
        "SCALE * added(self.cells[first:]) * 1.01",
        "SCALE * added(self.cells[:first])",
        "setattr(self, 'asked', 7) or 2 * added(self.cells[first:])",
    ],
)
def test_a_rewrite_that_does_something_else_is_seen(wrong):
    slow = module(SLOW)
    other = QUICK.replace("SCALE * added(self.cells[first:])", wrong)
    rewrite = replaying.rewritten(slow["Board"].total, "Board.total", SLOW, other)
    assert not replaying.compared([((slow["Board"](), 2), {})], slow["Board"].total, rewrite)["same"]


def test_random_numbers_are_the_same_for_both_forms():
    draw = lambda: (float(np.random.rand()), float(torch.rand(())))  # noqa: E731, NPY002
    again = lambda: (float(np.random.rand()), float(torch.rand(())))  # noqa: E731, NPY002
    assert replaying.compared([((), {})], draw, again)["same"]


def test_what_cannot_be_replayed():
    def outer():
        x = 1
        return lambda: x

    with pytest.raises(replaying.CannotReplay, match="variables of another function"):
        replaying.rewritten(outer(), "f", SLOW, QUICK)
    with pytest.raises(replaying.CannotReplay, match="not where it was"):
        replaying.rewritten(module(SLOW)["norm"], "norms", SLOW, QUICK)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1.0, 1.0 + 1e-9, True),
        (1.0, 1.1, False),
        (float("nan"), float("nan"), True),
        (1, True, True),
        ("a", "b", False),
        ([1, [2.0]], [1, [2.0]], True),
        ([1, 2], [1, 2, 3], False),
        ({"a": np.ones(3)}, {"a": np.ones(3)}, True),
        ({"a": np.ones(3)}, {"a": np.zeros(3)}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        (torch.ones(2), np.ones(2), True),
        (np.ones(2), np.ones((2, 1)), False),
        ({1, 2}, {2, 1}, True),
        ((1,), [1], False),
    ],
)
def test_what_is_the_same(a, b, same):
    assert replaying.are_close(a, b) is same


def test_which_function_a_rewrite_changes():
    assert changed_function(None, SLOW, QUICK)[0] == "Board.total"
    assert changed_function(None, SLOW, SLOW) is None
    both = QUICK.replace("v * v", "v**2")
    assert changed_function(None, SLOW, both) is None
    blamed = Code(SLOW).function(13)
    assert changed_function(blamed, SLOW, both)[0] == "Board.total"


class NoEvidence:
    """A profile in which the function took a third of the time."""

    codes = {}

    def time_in(self, test):
        return 1 / 3

    def seen(self, share, low, high, value):
        from hotlap.causes.cause import Saved

        return Saved(share * value, share * low, share * high)


def test_calls_are_recorded_in_the_script_and_replayed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SLOW)
    (tmp_path / "run").mkdir()
    script = Script("train.py")
    sources = Sources(tmp_path / "run", script)
    sources.texts, sources.paths = {"train.py": SLOW}, {"train.py": str(tmp_path / "train.py")}
    finding = Finding("env-python-loop", "", "collect", (), Projection(1.1, (1.0, 1.2)), False, "", None, where="train.py:13")
    rewrite = Intervention("sums at once", edits={"train.py": tuple(edits_between(SLOW, QUICK))})
    arguments = (
        Variant("as it is", script),
        finding,
        rewrite,
        [],
        sources,
        NoEvidence(),
        tmp_path / "replay",
        60.0,
        "auto",
        True,
    )
    seen = replay(*arguments)
    assert seen.problem is None
    assert (seen.function, seen.calls, seen.same) == ("Board.total", replaying.RECORDED, True)
    assert seen.after < seen.before
    gain = projected(seen, finding, NoEvidence())
    assert gain.speedup == pytest.approx(1 / (1 - (1 - seen.after / seen.before) / 3))
    assert (tmp_path / "train.py").read_text() == SLOW
    bound = Intervention("recorded", edits=rewrite.edits, upper_bound=True)
    assert replay(*arguments[:2], bound, *arguments[3:]) is None


def test_a_function_that_is_hardly_called_has_no_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    once = SLOW.replace("while True:", "for _ in range(3):")
    (tmp_path / "train.py").write_text(once)
    (tmp_path / "run").mkdir()
    sources = Sources(tmp_path / "run", Script("train.py"))
    sources.texts, sources.paths = {"train.py": once}, {"train.py": str(tmp_path / "train.py")}
    finding = Finding("env-python-loop", "", "collect", (), Projection(1.1, (1.0, 1.2)), False, "", None, where="train.py:13")
    after = QUICK.replace("while True:", "for _ in range(3):")
    rewrite = Intervention("sums at once", edits={"train.py": tuple(edits_between(once, after))})
    variant = Variant("as it is", Script("train.py"))
    seen = replay(variant, finding, rewrite, [], sources, NoEvidence(), tmp_path / "replay", 20.0, "auto", True)
    assert seen == Replay("Board.total", problem="it was not called often enough")
    assert projected(seen, finding, NoEvidence()) == finding.projected


def test_a_damaged_result_is_no_result(tmp_path):
    from hotlap.investigate.replay import _read

    path = tmp_path / "order.result"
    for text in ("", "[]", json.dumps({"calls": "many"}), textwrap.dedent('{"before": {}}')):
        path.write_text(text)
        assert _read(path, "f").problem == "its replay could not be read"

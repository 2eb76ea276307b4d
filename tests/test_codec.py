"""Nouns to JSON and strictly back: what fits is read as it was, what does not gives one clear line."""

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.core.errors import RecordError
from hotlap.core.words import Word
from hotlap.record import codec
from hotlap.record.codec import FLAT, from_json, loads, to_json, was
from hotlap.record.finding import Finding, Projection
from hotlap.record.hypothesis import Hypothesis, Reason, Verdict
from hotlap.record.intervention import Edit, Intervention, RuntimeChange
from hotlap.record.investigation import Gain, InvestigationState, LearningCheck, LearningVerdict, LossCheck, ReturnCheck, Total


class Colour(Word):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    size: int
    ratio: float | None = None


@dataclass(frozen=True)
class Noun:
    name: str
    colour: Colour = Colour.RED
    parts: tuple[Inner, ...] = ()
    pair: tuple[float, float] | None = None
    counts: dict[str, int] = field(default_factory=dict, metadata=was("old_counts"))
    inner: Inner = field(default_factory=lambda: Inner(0), metadata=FLAT)


numbers = st.floats(allow_nan=False, allow_infinity=False)
inners = st.builds(Inner, st.integers(-(2**62), 2**62), st.none() | numbers)
nouns = st.builds(
    Noun,
    st.text(),
    st.sampled_from(Colour),
    st.lists(inners, max_size=3).map(tuple),
    st.none() | st.tuples(numbers, numbers),
    st.dictionaries(st.text(), st.integers(0, 9), max_size=3),
    inners,
)


@given(nouns)
def test_what_is_written_is_read_back(noun):
    assert from_json(Noun, json.loads(json.dumps(to_json(noun))), "there") == noun


def test_flat_fields_lie_beside_their_owners_and_old_keys_are_read():
    document = to_json(Noun("a", inner=Inner(3, 0.5)))
    assert (document["size"], document["ratio"]) == (3, 0.5) and "inner" not in document
    assert from_json(Noun, {"name": "a", "size": 1, "old_counts": {"x": 2}}, "there").counts == {"x": 2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, "'name' must be text"),
        ({"name": 3}, "'name' must be text"),
        ({"colour": "green"}, "'colour' must be one of red, blue"),
        ({"colour": ["red"]}, "'colour' must be one of"),
        ({"parts": {}}, "'parts' must be a list"),
        ({"parts": [{"size": 1}, {"ratio": 1}]}, r"field 'size' is missing in 'parts\[1\]'"),
        ({"pair": [1]}, "'pair' must be a list of 2"),
        ({"pair": [1, True]}, r"'pair\[1\]' must be a number"),
        ({"counts": {"a": 1.5}}, "'counts.a' must be a whole number"),
        ({"size": 10**400}, "'size' is out of range"),
        ({"ratio": "1"}, "'ratio' must be a number"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(change, message):
    with pytest.raises(RecordError, match=f"there is damaged: .*{message}") as error:
        from_json(Noun, {"name": "a", "size": 1, **change}, "there")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["{", '{"a": NaN}', "[" * 100_000, "1" * 5_000, b"\xff", '{"a": 1e999}'])
def test_text_that_is_no_json_is_refused(text):
    with pytest.raises(RecordError, match="there is damaged"):
        codec.from_json(dict[str, float], loads(text, "there"), "there")


def test_free_form_content_is_bounded():
    deep: object = 0
    for _ in range(100):
        deep = [deep]
    with pytest.raises(RecordError, match="nested too deeply"):
        from_json(Intervention, {"title": "x", "config": {"a": deep}}, "there")


def test_an_investigation_is_read_back_whole():
    finding = Finding("utd-high", "because", "update", ("5 updates",), Projection(2.0, (1.5, 3.0)), True, "fewer")
    change = RuntimeChange("threads", {"number": 1})
    tried = Intervention("one thread", (change,), ("--x",), {"A": "1"}, {"a.py": (Edit(1, 2, ("x",)),)}, {}, True, True)
    hypotheses = (
        Hypothesis(1, "utd-high", 1, finding, finding.projected, tried, Verdict.CONFIRMED, None, None, 2.0, (1.9, 2.1), True),
        Hypothesis(2, "knob net", 1, verdict=Verdict.SKIPPED, reason=Reason.BUDGET_SPENT),
    )
    learning = LearningCheck(LossCheck(LearningVerdict.SAME_LOSSES, 40, 0.0), ReturnCheck(LearningVerdict.WORSE, 3, 1e4))
    state = InvestigationState("train.py", hypotheses=hypotheses, total=Total(Gain(2.0, (1.9, 2.1))), learning=learning)
    assert from_json(InvestigationState, json.loads(json.dumps(to_json(state))), "there") == state

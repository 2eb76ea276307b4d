"""Every noun of a document is written to JSON and read back as it was; every record of version 0.1.0 is readable."""

import json
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hotlap.causes import Diagnosis, diagnose
from hotlap.core.errors import RecordError
from hotlap.experiment.gate import compare_saved, judge, read_saved
from hotlap.record import codec
from hotlap.record.blocks import Block, BlockLine, InterleavedConfig, Plan, VariantRecord, append_block, read_blocks
from hotlap.record.comparison import ComparisonReport, GateReport
from hotlap.record.header import Verb
from hotlap.record.networks import NetComparison
from hotlap.record.profile import Profile
from hotlap.record.run import load
from hotlap.record.sweep import DelayReport, GrowthReport, SweepReport
from hotlap.report.formats import formats
from hotlap.report.investigated import InvestigationReport
from hotlap.report.show import noun_of, report_of

RECORDS = Path(__file__).parent / "data" / "records_v1"
DOCUMENTS = [
    ComparisonReport,
    DelayReport,
    Diagnosis,
    GateReport,
    GrowthReport,
    InvestigationReport,
    NetComparison,
    Plan,
    Profile,
    SweepReport,
    VariantRecord,
]
SCALARS = {
    str: st.text(max_size=8),
    bool: st.booleans(),
    int: st.integers(-(2**40), 2**40),
    float: st.floats(allow_nan=False, allow_infinity=False),
    NoneType: st.none(),
    Any: st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=3),
}


def values(kind):
    """Values of an annotation, nouns inside included."""
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(kind, **{field.name: values(hints[field.name]) for field in fields(kind)})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(kind)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of(*map(values, arguments))
    if origin is dict:
        return st.dictionaries(st.text(max_size=5), values(arguments[1]), max_size=2)
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, arguments))
    return SCALARS[kind]


@pytest.mark.parametrize("kind", DOCUMENTS, ids=lambda kind: kind.__name__)
def test_what_is_written_is_read_back(kind):
    @settings(max_examples=15, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
    @given(values(kind))
    def holds(noun):
        text = json.dumps(codec.to_json(noun), allow_nan=False)
        assert codec.from_json(kind, json.loads(text), "the text") == noun

    holds()


def test_blocks_are_read_back(tmp_path):
    lines = [BlockLine(1, i, "A", Block(0.5, 0.1, {"env_steps": 3.0}, {"collect": 0.2}, 7)) for i in (1, 2)]
    for line in lines:
        append_block(tmp_path, line)
    assert read_blocks(tmp_path) == lines


@pytest.mark.parametrize(
    ("variants", "message"),
    [([], "at least two variants"), ([{"name": "A"}], "at least two variants"), ([{"name": "A"}] * 2, "the same name")],
)
def test_an_interleaved_run_has_variants(variants, message):
    with pytest.raises(RecordError, match=message):
        codec.from_json(InterleavedConfig, {"plan": {}, "variants": variants}, "run.json")


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDS.iterdir() if path.is_dir()))
def test_records_of_version_0_1_0_are_shown(name):
    run = load(RECORDS / name)
    noun = noun_of(run)
    assert codec.from_json(type(noun), json.loads(json.dumps(codec.to_json(noun), allow_nan=False)), name) == noun
    report = report_of(noun, run)
    for renderer in formats().renderers.values():
        if renderer.name in ("terminal", "md", "html", "json"):
            assert run.header.target in renderer.render(report)
    if run.header.verb in (Verb.PROFILE, Verb.TRAIN):
        assert report_of(diagnose(run)).title.startswith("diagnose")


def test_a_baseline_of_version_0_1_0_is_compared():
    base = read_saved(str(RECORDS / "baseline.json"))
    report = judge(compare_saved(base, base, ("old", "new"), anyway=False), 0.05)
    assert report.comparison.ratio == pytest.approx(1)
    assert report_of(report).title.startswith("gate snake")

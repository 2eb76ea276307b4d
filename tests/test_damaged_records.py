"""Damaged and hostile records: one clear line, or a report; never a traceback, within bounded time and memory.

A fixed sample here, more in `make exact`; ten thousand mutations, two hundred of them through the command line, in
`make endurance`.
"""

import json
import os
import random
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hotlap import causes
from hotlap.core.errors import HotlapError
from hotlap.experiment import gate
from hotlap.record.header import Verb
from hotlap.record.run import Run, load
from hotlap.report.formats import BUILT_IN
from hotlap.report.show import noun_of, report_of
from tests.mutations import mutate

OLD = Path(__file__).with_name("data") / "records_v1"  # written by version 0.1.0: schema hotlap.run/1
KINDS = ("compare", "delay", "sweep", "growth", "profile_script", "profile_system", "train", "investigate")
TEXTS = [renderer for renderer in BUILT_IN if renderer.render and renderer.name != "html"]
PAGE = next(renderer for renderer in BUILT_IN if renderer.name == "html")
MOST_MEMORY = 1 << 30


def read_everything(folder: Path, page: bool = False) -> None:
    """All that `report`, `diagnose`, `gate` and `compare` make of a record."""
    run = load(folder)
    report = report_of(noun_of(run), run)
    for renderer in [*TEXTS, *([PAGE] if page else [])]:
        try:
            renderer.render(report)
        except HotlapError:  # formats that this kind of run does not have
            assert renderer.name in ("trace", "speedscope")
    if run.header.verb in (Verb.PROFILE, Verb.TRAIN):
        causes.diagnose(run)
        series = gate.read_saved(str(folder))
        gate.judge(gate.compare_saved(series, series, ("a", "b"), anyway=True), 0.05)


def damaged(kind: str, number: int, folder: Path) -> tuple[Path, str]:
    """A copy of a record with one mutation; every other one in the present schema."""
    coin = random.Random(f"{kind}-{number}")
    place = folder / f"{kind}-{number}"
    shutil.copytree(OLD / kind, place)
    if number % 2:
        rewritten(place)
    return place, mutate(place, coin)


def rewritten(folder: Path) -> None:
    """The record in the present schema."""
    run = load(folder)
    Run(folder, run.header)._save()


def check(kind: str, number: int, folder: Path) -> None:
    place, what = damaged(kind, number, folder)
    try:
        read_everything(place, page=number % 10 == 0)
    except HotlapError as error:
        assert len(str(error).splitlines()) == 1, (kind, number, what)
    except Exception as error:
        raise AssertionError(f"{kind} {number}: {what}") from error
    shutil.rmtree(place)


@pytest.mark.parametrize("kind", KINDS)
def test_records_of_version_1_are_read_and_render(kind, tmp_path):
    shutil.copytree(OLD / kind, tmp_path / "run")
    read_everything(tmp_path / "run", page=True)
    before = noun_of(load(tmp_path / "run"))
    rewritten(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["schema"] == "hotlap.run/2"
    assert noun_of(load(tmp_path / "run")) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_of_mutations(kind, tmp_path):
    for number in range(10):
        check(kind, number, tmp_path)


@pytest.mark.exact
@pytest.mark.parametrize("kind", KINDS)
def test_more_mutations(kind, tmp_path):
    for number in range(100, 150):
        check(kind, number, tmp_path)


@pytest.mark.endurance
@pytest.mark.parametrize("part", range(25))
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_mutations(kind, part, tmp_path):
    for number in range(1_000 + 50 * part, 1_050 + 50 * part):
        check(kind, number, tmp_path)


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))


def through_the_command(kind: str, number: int, folder: Path) -> None:
    place, what = damaged(kind, number, folder)
    arguments = {
        0: ["report", str(place)],
        1: ["diagnose", str(place)],
        2: ["gate", str(place), "--baseline", str(OLD / "baseline.json"), "--anyway"],
        3: ["compare", str(OLD / "profile_system"), str(place), "--anyway"],
    }[number % 4]
    result = subprocess.run(
        [sys.executable, "-m", "hotlap", *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
        preexec_fn=limited,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "100"},
    )
    shown = (kind, number, what, arguments[0], result.stderr[-2000:])
    assert "Traceback" not in result.stderr and "Error" not in result.stderr.split("\n")[-1], shown
    assert result.returncode in (0, 1, 2), shown
    assert "\x1b]0;" not in result.stdout and "\x1b[2J" not in result.stdout + result.stderr, shown
    if result.returncode == 2:
        assert len(result.stderr.strip().splitlines()) == 1, shown


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_record_through_the_command(kind, tmp_path):
    through_the_command(kind, KINDS.index(kind), tmp_path)


@pytest.mark.endurance
@pytest.mark.parametrize("part", range(25))
@pytest.mark.parametrize("kind", KINDS)
def test_two_hundred_damaged_records_through_the_command(kind, part, tmp_path):
    through_the_command(kind, 5_000 + part, tmp_path)

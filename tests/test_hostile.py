"""Records of unknown origin: their text does not reach a reader as it is, and no size or damage takes all time or memory."""

import json
import subprocess
import sys
from io import StringIO

import pytest
from rich.console import Console

from hotlap.core.errors import RecordError
from hotlap.record.machine import Machine
from hotlap.record.run import load
from hotlap.report import html, markdown, terminal
from hotlap.report.formats import BUILT_IN
from hotlap.report.sections import Bar, Notes, Plot, Table
from tests.report_runs import finish, make_run, report

HOSTILE = "\x1b[31mred\x1b]0;title\x07 <script>alert(1)</script> `tick` | pipe [link](javascript:x)\nnext\u202eline\ud800"


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run")


# -- text from a record --


def hostile_sections():
    rows = [(HOSTILE, HOSTILE), (Bar(1e300), Bar(float("nan"))), (Bar(-5.0), HOSTILE)]
    plot = Plot(HOSTILE, "area", HOSTILE, HOSTILE, [1.0, 2.0], {HOSTILE: [1.0, 2.0]})
    return [Notes([HOSTILE]), Notes([HOSTILE], kind="result"), Table(HOSTILE, (HOSTILE, "code"), rows, HOSTILE), plot]


def test_nothing_of_a_record_steers_a_terminal():
    out = StringIO()
    terminal.render(HOSTILE, hostile_sections(), Console(file=out, width=200))
    text = out.getvalue()
    assert not {c for c in text if ord(c) < 32 and c != "\n"} and "\u202e" not in text
    assert "<script>alert(1)</script>" in text  # harmless there, and it is what the record says
    text.encode()


def test_nothing_of_a_record_is_html_or_a_link_in_markdown():
    text = markdown.render(HOSTILE, hostile_sections())
    assert "<script" not in text and "\x1b" not in text and "[link]" not in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 5
    assert all(line.replace("\\|", "").count("|") == 3 for line in table)
    text.encode()


def test_nothing_of_a_record_is_html_in_html():
    page = html.render(HOSTILE, hostile_sections())
    assert page.count("<script>") == 2 and "\x1b" not in page  # plotly, and the figures
    assert "<script>alert" not in page and "\\u003cscript" not in page
    page.encode()


def test_hostile_text_in_every_field_of_a_record(run):
    finish(run, HOSTILE, notes=(HOSTILE,), types={HOSTILE: HOSTILE}, files_changed=(HOSTILE,))
    run.update(target=HOSTILE, machine=Machine(cpu=HOSTILE, versions={HOSTILE: HOSTILE}, commit=HOSTILE))
    for line in run.lines:
        line.sample.exclusive[HOSTILE] = line.sample.inclusive[HOSTILE] = 5
        line.sample.calls[HOSTILE] = 1
    (run.path / "stacks.json").write_text(json.dumps({"frames": [{"name": HOSTILE}], "stacks": [[HOSTILE, [0], 0.5]]}))
    for renderer in BUILT_IN:
        if renderer.render is not None:
            text = renderer.render(report(run))
            assert "\x1b" not in text, renderer.name
            assert "<script>alert" not in text or renderer.suffix in (".txt", ".json"), renderer.name


# -- hostile records --


def limited(code, *args, seconds=170):
    """A Python program that may use 1 GB beyond what the libraries map when they are loaded."""
    start = (
        "import numpy, scipy.special, scipy.stats, rich.console, resource\n"
        "import hotlap.report.show, hotlap.report.formats\n"
        "mapped = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (mapped + 10**9, mapped + 10**9))\n"
    )
    command = [sys.executable, "-c", start + code, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)


RENDER = """
import sys
from hotlap.core.errors import HotlapError
from hotlap.record.run import load
from hotlap.report.formats import formats
from hotlap.report.show import noun_of, report_of
try:
    run = load(sys.argv[1])
    report = report_of(noun_of(run), run)
    for name in ("terminal", "md", "json", "html"):
        print(name, len(formats().renderers[name].render(report)))
except HotlapError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize("number", [50_000, pytest.param(1_000_000, marks=pytest.mark.exact)])
def test_very_many_iterations_of_a_nanosecond(run, number):
    """Bounded in time and memory: lines are joined when they are read, series are thinned, intervals are computed together."""
    line = '{"phase":"measured","start":%d,"wall":1,"rss":1,"stages":{"collect":[1,1,1]},"counts":{"env_steps":1}}\n'
    with (run.path / "samples.jsonl").open("w") as file:
        file.writelines(line % i for i in range(number))
    result = limited(RENDER, run.path)
    assert result.returncode == 0, result.stderr[-500:]
    assert [text.split()[0] for text in result.stdout.splitlines()] == ["terminal", "md", "json", "html"]


@pytest.mark.parametrize("number", [1_000, pytest.param(20_000, marks=pytest.mark.exact)])
def test_many_stages_in_many_iterations(run, number):
    stages = ",".join(f'"collect/s{i}":[1000,1000,1]' for i in range(240))
    counts = ",".join(f'"count{i}":1' for i in range(240))
    line = f'{{"phase":"measured","start":%d,"wall":1000000,"rss":1,"stages":{{{stages}}},"counts":{{{counts}}}}}\n'
    with (run.path / "samples.jsonl").open("w") as file:
        file.writelines(line % i for i in range(number))
    result = limited(RENDER, run.path)
    assert result.returncode == 0, result.stderr[-500:]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("target", '"\\u001b[2J<script>"'),
        ("target", "1" + "0" * 400),
        ("config", '{"a":' * 3_000 + "1" + "}" * 3_000),
        ("config", "[" * 100_000),
        ("machine", '{"load": "high"}'),
        ("machine", '{"cores": 1e999}'),
        ("hot_lines", "[3]"),
        ("hot_lines", '[{"share": NaN}]'),
        ("usage", "[1]"),
        ("evaluation", '{"x": 1}'),
        ("targets", '["iteration_time<"]'),
        ("created", "null"),
        ("modules", '[{"name": "a", "kind": "b", "parameters": 1, "depth": 1000000000}]'),
    ],
)
def test_a_damaged_header_gives_one_line_or_a_report(run, key, text):
    path = run.path / "run.json"
    header = json.loads(path.read_text()) | {key: "\N{SNOWMAN}"}
    path.write_text(json.dumps(header).replace('"\\u2603"', text))
    try:
        loaded = load(run.path)
        shown = markdown.as_markdown(report(loaded))
        assert "\x1b" not in shown and "<script" not in shown
    except RecordError as error:
        message = str(error)
        assert "run.json" in message and "damaged" in message
        assert len(message) < 500 and "\n" not in message


@pytest.mark.parametrize("missing", ["id", "verb", "target", "status", "created", "process", "config", "machine", "schema"])
def test_a_missing_field_gives_one_line(run, missing):
    path = run.path / "run.json"
    header = json.loads(path.read_text())
    del header[missing]
    path.write_text(json.dumps(header))
    with pytest.raises(RecordError, match=f"{missing}|schema"):
        load(run.path)

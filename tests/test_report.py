"""One hand-made run through every renderer, and the numbers of its profile."""

import json
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from hotlap import notebook
from hotlap.core import units
from hotlap.core.errors import RecordError, UsageError
from hotlap.probe.sampler import shorten
from hotlap.record import codec
from hotlap.record.header import Setup, Status, Verb
from hotlap.record.limits import Limit
from hotlap.record.lines import Recorded
from hotlap.record.machine import Machine
from hotlap.record.profile import Profile
from hotlap.record.run import Run
from hotlap.record.series import MOST_POINTS
from hotlap.record.summary import profile_of
from hotlap.report import html, markdown, terminal
from hotlap.report.formats import BUILT_IN, Renderer, formats
from hotlap.report.sections import Report
from hotlap.report.show import show_run
from hotlap.report.trace import as_trace, trace_of
from tests.report_runs import MS, finish, make_run, report, sample


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run")


# -- numbers --


def test_the_profile_has_the_right_numbers(run):
    profile = profile_of(run)
    stages = profile.stages
    assert {path: round(stage.share, 6) for path, stage in stages.items()} == {
        "collect": 0.1,
        "collect/act": 0.3,
        "update": 0.05,
        "update/loss": 0.2,
        "update/backward": 0.25,
        "unattributed": 0.1,
    }
    assert sum(stage.share for stage in stages.values()) == pytest.approx(1)
    assert stages["update"].total_share == pytest.approx(0.5)
    assert stages["update/loss"].seconds == pytest.approx(8 * 0.02)
    assert all(stage.ci95[0] <= stage.share + 1e-9 and stage.share <= stage.ci95[1] + 1e-9 for stage in stages.values())
    assert profile.unattributed == pytest.approx(0.1)
    assert (profile.iterations.measured, profile.iterations.warmup) == (8, 1)
    assert profile.iterations.seconds.median == pytest.approx(0.1)
    assert profile.throughput.env_steps_per_s == pytest.approx(10_000)
    assert profile.throughput.episodes_per_s == pytest.approx(20)
    assert (profile.counts.env_steps, profile.counts.updates, profile.counts.episodes) == (9_000, 90, 18)
    assert profile.projection["1000"].seconds == pytest.approx(100)
    assert profile.what_if[0].stage == "collect/act" and profile.what_if[0].gone.speedup == pytest.approx(1 / 0.7)
    measuring = profile.measuring
    assert measuring.overhead_counted == pytest.approx((8 * 20 * 1e-6 + 0.002) / 0.8)
    assert measuring.overhead_ab.ratio == pytest.approx(100 / 99)
    assert measuring.overhead == pytest.approx(1 / 99)  # the bare iterations leave no doubt that it is more than was counted
    assert [(t.target, t.passed) for t in profile.targets] == [("iteration_time<200ms", True), ("memory<1MB", False)]
    assert profile.memory.peak_bytes == 6_000_000
    assert "10.0% of the time belongs to no stage." in profile.warnings


def test_the_document_has_the_documented_keys_and_is_read_back(run):
    profile = profile_of(run)
    document = json.loads(json.dumps(codec.to_json(profile), allow_nan=False))
    assert document["schema"] == "hotlap.profile/2"
    assert {"run", "machine", "stages", "throughput", "overhead", "hot_lines", "user_lines", "windows"} <= document.keys()
    assert {"seconds", "share", "ci95"} <= document["stages"]["update/loss"].keys()
    assert codec.from_json(Profile, document, "the document") == profile


def test_warmup_and_drift_are_found_in_the_samples(tmp_path):
    run = Run.create(Verb.TRAIN, "snake", {}, Machine(load=(9.0,), usable_cores=2.0), out=tmp_path / "run")
    for i, scale in enumerate([1, 1, 7, 7, 2, *[3] * 12, *[4] * 8]):
        line = Recorded("train", sample(i, scale), 1)
        line.sample.counts["updates"] = 0 if i < 2 else 5
        run.append(line)
    run.finish()
    profile = profile_of(run)
    assert (profile.iterations.measured, profile.iterations.warmup) == (20, 5)
    assert any(line.startswith("Drift: from measured iteration 13 on, one takes 1.33x") for line in profile.warnings)
    assert any("load 9 on 2 usable cores" in line for line in profile.warnings)


def test_series_of_long_runs_are_joined(tmp_path):
    run = Run.create(Verb.PROFILE, "snake", {}, Machine(), out=tmp_path / "run")
    run.lines = [Recorded("measured", sample(i), i) for i in range(MOST_POINTS + 500)]
    windows = profile_of(run).windows
    assert len(windows.time) == len(windows.rss) == len(windows.shares["update"]) == (MOST_POINTS + 500) / 2
    assert set(windows.env_steps_per_s) == {10_000.0}
    assert windows.rss[-1] == MOST_POINTS + 499


def test_a_run_without_samples_still_renders(tmp_path):
    setup = Setup(targets=("memory<1GB",))
    run = Run.create(Verb.PROFILE, "snake", {}, Machine(), out=tmp_path / "run", setup=setup)
    run.finish(Status.FAILED, error="ValueError: no")
    profile = profile_of(run)
    assert "The run failed: ValueError: no" in profile.warnings
    assert any("nothing to show" in line for line in profile.warnings)
    assert "ValueError: no" in markdown.as_markdown(report(run))
    html.as_html(report(run))


def test_a_limit_that_is_none_is_damage(run):
    run.update(setup=replace(run.header.setup, targets=("faster please",)))
    with pytest.raises(RecordError, match=r"run\.json is damaged: target 'faster please'"):
        profile_of(run)


def test_gpu_times_get_a_column(run):
    traced = sample(9)
    traced.gpu.update({"update": 45 * MS})
    run.append(Recorded("traced", traced, 1))
    assert profile_of(run).stages["update"].gpu_share == pytest.approx(0.45)
    table = next(s for s in report(run).sections if getattr(s, "title", "") == "Where the time went")
    assert table.columns[3] == ">on the GPU"
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_reports_say_where_a_script_ran_and_what_it_overwrote(run):
    run.update(setup=replace(run.header.setup, scratch="in-place", containment="pid namespace"))
    finish(run, files_changed=("best_model.pt", "log.csv"))
    text = markdown.as_markdown(report(run))
    assert "This run overwrote: best_model.pt, log.csv." in text
    assert "| ran | in place" in text and "pid namespace" in text


# -- renderers --


@pytest.mark.parametrize("width", [80, 200])
def test_terminal(run, width):
    def shown(breakdown):
        built, out = report(run, breakdown), StringIO()
        terminal.render(built.title, built.sections, Console(file=out, width=width))
        return out.getvalue()

    text = shown(breakdown=True)
    assert max(len(line) for line in text.splitlines()) <= width
    for word in ("backward", "unattributed", "env steps", "10.0k", "FAIL", "pass", "Linear", "a.py:3", "cost of measuring"):
        assert word in text, word
    table = shown(breakdown=False).split("Where the time went")[1].split("Throughput")[0]
    assert "collect" in table
    assert "backward" not in table


def test_a_run_is_shown(run, capsys):
    show_run(run, only=("Throughput",))
    shown = capsys.readouterr().out
    assert "Throughput" in shown and "Where the time went" not in shown


def test_a_notebook_shows_the_stages_in_few_characters(run):
    shown = notebook.load(run.path)
    page = shown._repr_html_()
    assert "backward" in page and "25.0%" in page and "profile snake" in page and "too few" not in page
    assert len(page) < 6_000 and len(repr(shown)) < 200
    assert "<script" not in page


def test_a_cell_has_its_number(monkeypatch):
    """As IPython of today says it, and as the names of files had it before."""
    new, old = "/tmp/ipykernel_12/345.py", "<ipython-input-7-0ad6>"
    shell = SimpleNamespace(compile=SimpleNamespace(_filename_map={new: 3}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert [shorten(new), shorten(old), shorten("/tmp/ipykernel_12/6.py")] == ["In[3]", "In[7]", "6.py"]
    monkeypatch.delitem(sys.modules, "IPython")
    assert shorten(old) == "In[7]"


def test_markdown(run):
    text = markdown.as_markdown(report(run))
    assert "| stage | seconds | share | 95% interval |   |" in text
    rows = [line for line in text.splitlines() if line.startswith("| &nbsp;&nbsp;&nbsp;&nbsp;backward")]
    assert len(rows) == 1
    assert "200 ms | 25.0% | 25.0-25.0%" in rows[0]
    assert "a &lt;b&gt;CPU&lt;/b&gt; \\| pipe" in text
    assert "<code>x &lt; y &lt;/script&gt;</code>" in text
    assert "`a.py:3`" in text


def test_html_is_one_offline_file(run):
    page = html.as_html(report(run))
    ours = page.split("<script>")[0] + page.rsplit("<script>", 1)[1]
    assert "http://" not in ours
    assert "https://" not in ours
    assert "<link" not in ours
    assert " src=" not in ours
    assert "x &lt; y &lt;/script&gt;" in ours  # escaped
    assert ours.count('class="plot"') == 4
    assert "Plotly.newPlot" in ours
    figures = json.loads(ours.split("const figures = ")[1].split(";\nfigures")[0])
    icicle = figures[0]["data"][0]
    by_id = dict(zip(icicle["ids"], zip(icicle["parents"], icicle["values"], strict=True), strict=True))
    assert by_id["update/loss"] == ("update", pytest.approx(0.02))
    assert by_id["iteration"][1] == pytest.approx(0.1)
    for parent in ("iteration", "update", "collect"):
        inside = sum(value for above, value in by_id.values() if above == parent)
        assert inside <= by_id[parent][1] + 1e-9
    area = figures[1]["data"]
    assert sum(t["y"][0] for t in area) == pytest.approx(100)


def test_trace_is_chromes_format(run):
    run.lines[0].sample.events += [("log", -50, 30), ("log", -50, 80), ("log", 500, -7)]  # before the trace, across, reversed
    events = json.loads(as_trace(report(run)))["traceEvents"]
    assert events == trace_of(run)["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert sum(e["name"] == "iteration" for e in spans) == 9  # bare iterations are left out
    act = next(e for e in spans if e["name"] == "act")
    assert (act["ts"], act["dur"], act["args"]["path"]) == (0.005, 30_000.0, "collect/act")
    assert {e["name"] for e in events if e["ph"] == "C"} == {"env_steps per second", "rss"}
    assert [(e["ts"], e["dur"]) for e in spans if e["name"] == "log"] == [(0, 0), (0, 0.03), (0.5, 0)]


def test_formats_that_need_a_profile(tmp_path):
    run = Run.create(Verb.SWEEP, "snake", {}, Machine(), out=tmp_path / "run")
    for renderer in BUILT_IN:
        if renderer.stem in ("trace", "speedscope", "tensorboard"):
            with pytest.raises(UsageError, match=f"--format {renderer.name}: only for profiles and training runs"):
                renderer.write(Report("title", [], None, run), tmp_path / "out")


def test_speedscope_reads_its_stacks_strictly(run):
    speedscope = formats().renderers["speedscope"]
    with pytest.raises(RecordError, match="no sampled stacks"):
        speedscope.render(report(run))
    frames = [{"name": "f", "file": "a.py", "line": 3}, {"name": "g", "file": "b.py", "line": 4}]
    stacks = run.path / "stacks.json"
    stacks.write_text(json.dumps({"frames": frames, "stacks": [["update", [0, 1], 0.5, 0.1], ["", [0], 0.25]]}))
    document = json.loads(speedscope.render(report(run)))
    assert [frame["name"] for frame in document["shared"]["frames"]] == ["f", "g", "update", "no stage"]
    assert document["profiles"][0]["samples"] == [[2, 0, 1], [3, 0]]
    assert document["profiles"][0]["endValue"] == pytest.approx(0.75)
    for damage in ({"frames": frames, "stacks": [["update", [7], 0.5]]}, {"frames": 3}, [], {"frames": [], "stacks": [1]}):
        stacks.write_text(json.dumps(damage))
        with pytest.raises(RecordError, match=r"stacks\.json is damaged"):
            speedscope.render(report(run))


# -- plugins --

PLUGIN = """
import csv, io
from hotlap.report.formats import Renderer
from hotlap.report.sections import Report, Table

def as_csv(report: Report) -> str:
    out = io.StringIO()
    for section in report.sections:
        if isinstance(section, Table):
            csv.writer(out).writerows([[section.title], *section.rows])
    return out.getvalue()

CSV = Renderer("csv", ".csv", as_csv, to_stdout=True)
TAKEN = Renderer("html", ".html", as_csv)
"""


def test_a_format_of_another_package(run, tmp_path):
    """The walk-through of CONTRIBUTING.md: one small file and an entry point, seen by the real command line."""
    (tmp_path / "my_csv.py").write_text(PLUGIN)
    info = tmp_path / "my_csv-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-csv\nVersion: 1.0\n")
    points = ("csv = my_csv:CSV", "broken = my_csv:NOTHING", "taken = my_csv:TAKEN", "wrong = my_csv:PLUGIN")
    (info / "entry_points.txt").write_text("\n".join(["[hotlap.formats]", *points]))
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from hotlap.cli import main; sys.exit(main())"

    def hotlap(*args):
        return subprocess.run([sys.executable, "-c", program, *args], capture_output=True, text=True, check=False)

    shown = hotlap("report", str(run.path), "--format", "csv")
    assert shown.returncode == 0, shown.stderr
    assert "Where the time went\n" in shown.stdout.replace("\r", "") and "collect," in shown.stdout
    assert "plugin broken" in shown.stderr and "plugin wrong" in shown.stderr
    assert "there is a format 'html' already" in shown.stderr
    assert "choose one of terminal, md, html" in hotlap("report", str(run.path), "--format", "pdf").stderr
    with pytest.raises(ValueError, match="give one of render and write_folder"):
        Renderer("empty", ".txt")


# -- units and limits --


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("5s", "seconds", 5),
        ("3 ms", "seconds", 0.003),
        ("2min", "seconds", 120),
        ("2GB", "bytes", 2e9),
        ("1.5 GiB", "bytes", 1.5 * 2**30),
    ],
)
def test_units_are_parsed(text, kind, value):
    assert units.parse(text, kind) == pytest.approx(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 ns"), (2.5e-8, "25.0 ns"), (0.0123, "12.3 ms"), (59.0, "59.0 s"), (600, "10.0 min"), (9_000, "2.50 h")],
)
def test_seconds_for_people(value, text):
    assert units.seconds(value) == text


def test_counts_and_sizes_for_people():
    assert [units.count(v) for v in (0, 7, 999, 12_345, 4.2e7, 3e9)] == ["0", "7.00", "999", "12.3k", "42.0M", "3.00G"]
    assert [units.size(v) for v in (512, 2e6, 25.3e9)] == ["512 B", "2.00 MB", "25.3 GB"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fast please", "must look like"),
        ("speed<3", "unknown metric 'speed'; choose one of iteration_time, memory"),
        ("memory<3parsecs", "'3parsecs' is not a number with a unit"),
        ("memory<1.2.3GB", "is not a number"),
    ],
)
def test_bad_targets(text, message):
    with pytest.raises(ValueError, match=message):
        Limit.parse(text)

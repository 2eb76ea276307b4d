"""One hand-made run through every renderer, and the numbers of its document."""

import json
from io import StringIO

import pytest
from rich.console import Console

from hotlap.core import units
from hotlap.core.errors import RecordError
from hotlap.core.sample import Sample
from hotlap.record.limits import Target
from hotlap.record.run import Recorded, Run
from hotlap.record.summary import document
from hotlap.report import html, markdown, terminal, trace
from hotlap.report import sections as content

MS = 1_000_000


def sample(i, scale=1):
    """100 ms: collect 40 (act 30), update 50 (loss 20, backward 25), nothing for the rest."""
    own = {"collect": 10, "collect/act": 30, "update": 5, "update/loss": 20, "update/backward": 25}
    total = {"collect": 40, "collect/act": 30, "update": 50, "update/loss": 20, "update/backward": 25}
    return Sample(
        start=i * 100 * MS,
        wall=100 * MS * scale,
        own={path: t * MS * scale for path, t in own.items()},
        total={path: t * MS * scale for path, t in total.items()},
        calls=dict.fromkeys(own, 4),
        counts={"env_steps": 1_000, "updates": 10, "episodes": 2},
        events=[("collect/act", i * 100 * MS + 5, 30 * MS)] if i == 0 else [],
    )


@pytest.fixture
def run(tmp_path):
    machine = {
        "cpu": "a <b>CPU</b> | pipe",
        "cores": 4,
        "usable_cores": 2.0,
        "load": [0.1, 0.1, 0.1],
        "memory": 8e9,
        "gpus": [],
    }
    run = Run.create(
        "profile",
        "snake",
        {"num_envs": 2, "turbo": True, "device": "cpu"},
        {**machine, "versions": {"torch": "1"}, "python": "3", "commit": None},
        out=tmp_path / "run",
        stage_cost=1e-6,
        gpu_timing="host time only",
        targets=["iteration_time<200ms", "memory<1MB"],
    )
    run.append(Recorded("warmup", sample(0, scale=9), 5_000_000))
    for i in range(8):
        run.append(Recorded("measured", sample(i), 5_000_000 + i))
        run.append(Recorded("bare", Sample(start=0, wall=99 * MS), 5_000_000))
    run.finish(
        sampler_seconds=0.002,
        usage={"peak_rss": 6_000_000, "gpu_busy": None},
        hot_lines=[{"share": 0.5, "stage": "update", "where": "a.py:3", "function": "f", "code": "x < y </script>"}],
        modules=[{"name": "net.0", "kind": "Linear", "parameters": 9, "depth": 1, "calls": 2, "forward": 0.1, "backward": 0.0}],
        functions=[{"where": "a.py:3", "function": "f", "calls": 7, "own_seconds": 0.1, "total_seconds": 0.2}],
        evaluation={
            "episodes": 5,
            "mean_return": 1.5,
            "ci95": [1, 2],
            "mean_score": 3.0,
            "score_ci95": [2, 4],
            "mean_length": 9.0,
        },
    )
    return run


def test_the_document_has_the_right_numbers(run):
    doc = document(run)
    stages = doc["stages"]
    assert {path: round(row["share"], 6) for path, row in stages.items()} == {
        "collect": 0.1,
        "collect/act": 0.3,
        "update": 0.05,
        "update/loss": 0.2,
        "update/backward": 0.25,
        "unattributed": 0.1,
    }
    assert sum(row["share"] for row in stages.values()) == pytest.approx(1)
    assert stages["update"]["total_share"] == pytest.approx(0.5)
    assert stages["update/loss"]["seconds"] == pytest.approx(8 * 0.02)
    assert all(row["ci95"][0] <= row["share"] + 1e-9 and row["share"] <= row["ci95"][1] + 1e-9 for row in stages.values())
    assert doc["unattributed"] == pytest.approx(0.1)
    assert doc["iterations"]["measured"] == 8
    assert doc["iterations"]["warmup"] == 1
    assert doc["iterations"]["seconds"]["median"] == pytest.approx(0.1)
    assert doc["throughput"]["env_steps_per_s"] == pytest.approx(10_000)
    assert doc["throughput"]["episodes_per_s"] == pytest.approx(20)
    assert doc["counts"] == {"env_steps": 9_000, "updates": 90, "episodes": 18}
    assert doc["projection"]["1000"]["seconds"] == pytest.approx(100)
    assert doc["overhead_counted"] == pytest.approx((8 * 20 * 1e-6 + 0.002) / 0.8)
    assert doc["overhead_ab"]["ratio"] == pytest.approx(100 / 99)
    assert doc["overhead"] == pytest.approx(1 / 99)  # the bare iterations leave no doubt that it is more than was counted
    assert [(t["target"], t["passed"]) for t in doc["targets"]] == [("iteration_time<200ms", True), ("memory<1MB", False)]
    assert doc["memory"]["peak_bytes"] == 6_000_000
    assert doc["schema"] == "hotlap.profile/1"
    assert "10.0% of the time belongs to no stage." in doc["warnings"]
    json.dumps(doc)


def test_warmup_and_drift_are_found_in_the_samples(tmp_path):
    run = Run.create("train", "snake", {}, {"load": [9.0], "usable_cores": 2.0}, out=tmp_path / "run")
    for i, scale in enumerate([1, 1, 7, 7, 2, *[3] * 12, *[4] * 8]):
        line = Recorded("train", sample(i, scale), 1)
        line.sample.counts["updates"] = 0 if i < 2 else 5
        run.append(line)
    run.finish()
    doc = document(run)
    assert doc["iterations"] | {"seconds": 0} == {"measured": 20, "warmup": 5, "seconds": 0}
    assert any(line.startswith("Drift: from measured iteration 13 on, one takes 1.33x") for line in doc["warnings"])
    assert any("load 9 on 2 usable cores" in line for line in doc["warnings"])


def test_a_run_without_samples_still_renders(tmp_path):
    run = Run.create("profile", "snake", {}, {"load": [0.0], "usable_cores": 1.0}, out=tmp_path / "run", targets=["memory<1GB"])
    run.finish("failed", error="ValueError: no")
    doc = document(run)
    assert "The run failed: ValueError: no" in doc["warnings"]
    assert any("nothing to show" in line for line in doc["warnings"])
    text = markdown.render(content.headline(doc), content.sections(doc))
    assert "ValueError: no" in text
    html.render("t", content.sections(doc))


@pytest.mark.parametrize("damage", [{"usage": [1]}, {"evaluation": {"x": 1}}, {"machine": {"load": []}}, {"hot_lines": [3]}])
def test_a_record_with_strange_fields_is_damaged_not_a_traceback(run, damage):
    run.update(**damage)
    with pytest.raises(RecordError, match=r"run\.json is damaged"):
        content.sections(document(run))


def test_a_record_from_a_machine_that_told_little_renders(run):
    run.update(machine={})
    markdown.render("t", content.sections(document(run)))


def test_gpu_times_get_a_column(run):
    traced = sample(9)
    traced.gpu.update({"update": 45 * MS})
    run.append(Recorded("traced", traced, 1))
    doc = document(run)
    assert doc["stages"]["update"]["gpu_share"] == pytest.approx(0.45)
    table = next(s for s in content.sections(doc, breakdown=True) if getattr(s, "title", "") == "Where the time went")
    assert table.columns[3] == ">on the GPU"
    assert {len(row) for row in table.rows} == {len(table.columns)}


@pytest.mark.parametrize("width", [80, 200])
def test_terminal(run, width):
    doc = document(run)
    out = StringIO()
    terminal.render(content.headline(doc), content.sections(doc, breakdown=True), Console(file=out, width=width))
    text = out.getvalue()
    assert max(len(line) for line in text.splitlines()) <= width
    for word in ("backward", "unattributed", "env steps", "10.0k", "FAIL", "pass", "Linear", "a.py:3", "cost of measuring"):
        assert word in text, word
    short = StringIO()
    terminal.render(content.headline(doc), content.sections(doc), Console(file=short, width=width))
    table = short.getvalue().split("Throughput")[0]
    assert "collect" in table
    assert "backward" not in table


def test_markdown(run):
    doc = document(run)
    text = markdown.render(content.headline(doc), content.sections(doc, breakdown=True))
    assert "| stage | seconds | share | 95% interval |   |" in text
    rows = [line for line in text.splitlines() if line.startswith("| &nbsp;&nbsp;&nbsp;&nbsp;backward")]
    assert len(rows) == 1
    assert "200 ms | 25.0% | 25.0-25.0%" in rows[0]
    assert "a &lt;b>CPU&lt;/b> \\| pipe" in text


def test_html_is_one_offline_file(run):
    doc = document(run)
    page = html.render(content.headline(doc), content.sections(doc, breakdown=True))
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
    events = trace.render(run)["traceEvents"]
    assert json.loads(json.dumps(events)) == events
    spans = [e for e in events if e["ph"] == "X"]
    assert sum(e["name"] == "iteration" for e in spans) == 9  # bare iterations are left out
    act = next(e for e in spans if e["name"] == "act")
    assert (act["ts"], act["dur"], act["args"]["path"]) == (0.005, 30_000.0, "collect/act")
    assert {e["name"] for e in events if e["ph"] == "C"} == {"env_steps per second", "rss"}


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
        ("memory<3parsecs", "'3parsecs' is no number with a unit"),
        ("memory<1.2.3GB", "is no number"),
    ],
)
def test_bad_targets(text, message):
    with pytest.raises(ValueError, match=message):
        Target.parse(text)

"""Rules on hand-made runs: each cause where it is, the guides' wrong verdicts avoided, and nothing on a healthy run."""

import json

import pytest

from hotlap import causes as diagnose
from hotlap.causes.catalogue import CAUSES
from hotlap.causes.evidence import Evidence
from hotlap.core.sample import Sample
from hotlap.experiment import compare
from hotlap.experiment.interleave import Turn
from hotlap.interventions.code import Code
from hotlap.probe.describe import SOURCES
from hotlap.record.finding import Finding, Saved
from hotlap.record.run import STACKS, Recorded, Run, append_line

MS = 1_000_000
TORCH = {"anomaly": False, "validate": False, "threads": 1, "matmul": "highest"}
NET = {
    "name": "Sequential",
    "parameters": 9_000,
    "tensors": 6,
    "layers": {"Linear": 3},
    "inputs": 4,
    "outputs": 2,
    "widest": 64,
    "dtype": "float32",
    "device": "cpu",
}


def make_run(
    path,
    shares,
    counts,
    *,
    windows=12,
    nets=(NET,),
    environments=({"chain": ["SyncVectorEnv x32", "CartPoleEnv"], "count": 1},),
    torch=TORCH,
    stacks=(),
    sources=None,
    workers=None,
    cores=2.0,
    scale=lambda i: {},
    facts=None,
    **header,
):
    """A profile of windows of 300 ms: shares by stage, counts per window; `scale` multiplies stages of the i-th window."""
    machine = {"cpu": "x", "cores": 2, "usable_cores": cores, "load": [0, 0, 0], "memory": 8e9, "gpus": [], "versions": {}}
    run = Run.create("profile", "train.py", {"script": "train.py"}, machine, path, stage_cost=1e-6)
    at = 0
    for i in range(windows):
        factors = scale(i)
        own = {name: int(share * 300 * MS * factors.get(name, 1.0)) for name, share in shares.items()}
        wall = max(300 * MS, sum(own.values()))
        total = dict(own)
        for name in list(own):
            top = name.partition("/")[0]
            if top != name:
                total[top] = total.get(top, 0) + own[name]
        own |= {name: 0 for name in total if name not in own}
        calls = dict.fromkeys(own, 10)
        grown = {name: value(i) if callable(value) else value for name, value in counts.items()}
        run.append(Recorded("measured", Sample(at, wall, own, total, calls, grown), int(header.get("rss", lambda i: 1e8)(i))))
        at += wall
    if workers:
        (path / "workers").mkdir()
        for number in range(workers.pop("count")):
            row = dict(workers)
            own = {"collect/env_step": int(row.pop("env_share") * 300 * MS)}
            sample = Sample(0, 300 * MS, own, own, dict.fromkeys(own, 1), row)
            for i in range(windows):
                sample.start = i * 300 * MS
                append_line(path / "workers" / f"{number}.jsonl", Recorded("train", sample, 10**8))
    frames, listed = [], []
    for stage, stack, seconds in stacks:
        places = []
        for frame in stack:
            if frame not in frames:
                frames.append(frame)
            places.append(frames.index(frame))
        listed.append([stage, places, seconds, 0.0])
    named = [{"name": n, "file": f, "line": line, "own": f in (sources or {})} for n, f, line in frames]
    (path / STACKS).write_text(json.dumps({"frames": named, "stacks": listed}))
    (path / SOURCES).write_text(json.dumps(sources or {}))
    found = {"nets": list(nets), "environments": list(environments), "optimizers": [], "torch": torch, "gemm_rate": 5e10}
    run.finish(facts=found | (facts or {}), usage={"peak_rss": 1, "gpu_busy": None}, sampler_period=0.01)
    from hotlap.record.run import load

    return load(path)


PPO = {
    "collect/act": 0.2,
    "collect/env_step": 0.3,
    "collect/store": 0.03,
    "advantage": 0.02,
    "update/loss": 0.15,
    "update/backward": 0.2,
    "update/optimizer": 0.1,
}
PPO_COUNTS = {
    "env_steps": 4_096,
    "updates": 16,
    "episodes": 20,
    "episode_steps": 4_000,
    "forwards@collect/act": 128,
    "rows@collect/act": 4_096,
    "forwards@update/loss": 16,
    "rows@update/loss": 16 * 512,
}


def causes(run):
    return [finding.cause for finding in diagnose.diagnose(run)]


def test_a_healthy_run_yields_nothing(tmp_path):
    assert causes(make_run(tmp_path / "r", PPO, PPO_COUNTS)) == []


def test_every_cause_has_a_rule_and_words():
    assert diagnose.RULES.keys() == CAUSES.keys()
    assert len(CAUSES) >= 55
    for name, cause in CAUSES.items():
        assert cause.title and cause.fix and cause.confirm and cause.sources, name
        assert set(cause.explains) <= CAUSES.keys()


def test_seed_000_is_overhead_of_tiny_minibatches_not_the_transformer(tmp_path):
    """1,250 updates of 32 rows in 18.5 s of which arithmetic needs little, with a net of 401k parameters, 512 wide."""
    shares = {"collect/act": 0.08, "collect/env_step": 0.06, "advantage": 0.01, "update/loss": 0.35, "update/backward": 0.35}
    shares["update/optimizer"] = 0.15
    counts = PPO_COUNTS | {
        "env_steps": 65,
        "updates": 20,
        "forwards@collect/act": 65,
        "rows@collect/act": 65,
        "forwards@update/loss": 20,
        "rows@update/loss": 640,
    }
    net = NET | {"parameters": 401_000, "widest": 512, "inputs": 100, "layers": {"Linear": 12, "LayerNorm": 4}}
    run = make_run(tmp_path / "r", shares, counts, nets=[net], environments=[{"chain": ["Hearts"], "count": 1}])
    found = diagnose.diagnose(run)
    assert found[0].cause == "tiny-minibatch"
    assert "oversized-net" not in [finding.cause for finding in found]
    assert "overhead, not the network" in found[0].evidence[1]
    assert found[0].saved.speedup()[0] > 2


def test_seed_001_the_effect_of_turbo_is_not_measurable():
    """+1.2% between runs that differ by 5% from round to round is no verdict."""
    noise = [0.0, 0.05, -0.05, 0.03, -0.04, 0.02]
    turns = [
        Turn(
            r,
            t,
            side,
            {"wall": (1 + n) / gain, "bare": 0.0, "counts": {"env_steps": 1000}, "stages": {"collect": 1.0}, "rss": 1},
        )
        for r, n in enumerate(noise, 1)
        for t in (1, 2)
        for side, gain, n in (("off", 1.0, 0.0), ("on", 1.012, n))
    ]
    found = compare.compare_blocks(turns, "off", "on", "env_steps", 0.02)
    assert found["verdict"] in (compare.SAME, compare.TOO_FEW)
    assert found["ci95"][0] < 1 < found["ci95"][1]
    assert found["smallest_effect"] > 0.012


SUBPROCESSES = {"collect/act": 0.05, "collect/env_step": 0.05, "collect/wait": 0.7, "update/loss": 0.1, "update/backward": 0.1}
MANY = [{"chain": ["AsyncVectorEnv x200"], "count": 1}]


def worker(**changes):
    """A worker that steps 1.5 times per window: 200 of them make 300 steps per window of 0.3 s... as slow as the guide's."""
    base = {"count": 8, "env_share": 0.02, "env_steps": 2.0, "step_median": 2.6e-3, "step_p99": 3e-3, "cpu_seconds": 0.006}
    return base | changes


def steps(number):
    return PPO_COUNTS | {"env_steps": number, "forwards@collect/act": 1, "rows@collect/act": number}


def test_seed_004_separates_payload_contention_and_barriers(tmp_path):
    payload = make_run(tmp_path / "a", SUBPROCESSES, steps(16), environments=MANY, workers=worker(ipc_bytes=400_000.0))
    assert causes(payload)[0] == "ipc-payload"
    late = worker(step_p99=60e-3, env_share=0.06, cpu_seconds=0.018)
    barriers = make_run(tmp_path / "b", SUBPROCESSES, steps(16), environments=MANY, workers=late)
    assert causes(barriers)[0] == "vec-straggler"
    crowded = worker(env_share=0.30, env_steps=1.0, cpu_seconds=0.012, step_median=90e-3, step_p99=95e-3)
    contention = make_run(tmp_path / "c", SUBPROCESSES, steps(8), environments=MANY, workers=crowded)
    assert causes(contention)[0] in ("env-oversubscribe", "subproc-cheap-env")
    assert "ipc-payload" not in causes(contention) and "vec-straggler" not in causes(contention)


SLOW_ENV = """\
class Grid:
    def step(self, action):
        return self.fill(action)

    def fill(self, action):
        total = 0
        for i in range(100):
            total += i
        return total


def main():
    env = Grid()
    while True:
        env.step(0)
"""


def test_a_python_loop_in_the_environment_is_found_with_its_line(tmp_path):
    stack = [("main", "train.py", 15), ("step", "train.py", 3), ("fill", "train.py", 8)]
    shares = PPO | {"collect/env_step": 0.6, "update/backward": 0.05, "update/loss": 0.05, "update/optimizer": 0.02}
    run = make_run(
        tmp_path / "r", shares, PPO_COUNTS, stacks=[("collect/env_step", stack, 2.0)], sources={"train.py": SLOW_ENV}
    )
    found = diagnose.diagnose(run)
    assert found[0].cause == "env-python-loop" and found[0].where == "train.py:8"


def test_the_same_loop_around_the_environment_is_not_blamed(tmp_path):
    stack = [("main", "train.py", 15), ("step", "train.py", 3)]
    shares = PPO | {"collect/env_step": 0.6}
    run = make_run(
        tmp_path / "r", shares, PPO_COUNTS, stacks=[("collect/env_step", stack, 2.0)], sources={"train.py": SLOW_ENV}
    )
    assert "env-python-loop" not in causes(run)


def test_sleep_is_named_by_its_seconds(tmp_path):
    counts = PPO_COUNTS | {"slept_seconds@collect/env_step": 0.3 * 0.25}
    found = diagnose.diagnose(make_run(tmp_path / "r", PPO, counts))
    assert found[0].cause == "env-realtime-throttle"
    assert found[0].saved.speedup()[0] == pytest.approx(1 / (1 - 0.25 * 0.985), rel=0.01)


def test_subprocesses_are_right_for_heavy_environments_and_wrong_for_light_ones(tmp_path):
    """The same layout, the answer flips with the cost of a step."""
    light = {"count": 2, "env_share": 0.02, "env_steps": 300.0, "step_median": 2e-5, "step_p99": 3e-5, "cpu_seconds": 0.05}
    shares = PPO | {"collect/env_step": 0.1, "collect/wait": 0.4, "update/backward": 0.05, "update/loss": 0.05}
    two = [{"chain": ["AsyncVectorEnv x2"], "count": 1}]
    counts = steps(600) | {"forwards@collect/act": 300}
    run = make_run(tmp_path / "a", shares, counts, environments=two, workers=light)
    assert causes(run)[0] == "subproc-cheap-env"
    heavy = light | {
        "count": 2,
        "env_share": 0.9,
        "env_steps": 10.0,
        "step_median": 27e-3,
        "step_p99": 28e-3,
        "cpu_seconds": 0.27,
    }
    run = make_run(tmp_path / "b", shares | {"collect/wait": 0.75}, steps(20), environments=two, workers=heavy)
    assert "subproc-cheap-env" not in causes(run)


def test_a_leak_is_told_from_harder_states(tmp_path):
    """Steps get slower in both; where episodes grow as well and nothing piles up, it is no bug."""
    leaking = SLOW_ENV.replace("return self.fill(action)", "self.seen.append(action)\n        return self.fill(action)")
    leaking = leaking.replace("    def fill", "    def reset(self):\n        self.board = 0\n\n    def fill")
    shares = PPO | {"collect/env_step": 0.3}
    rising = lambda i: {"collect/env_step": 1 + i / 4}  # noqa: E731
    kept = make_run(tmp_path / "a", shares, PPO_COUNTS, scale=rising, sources={"train.py": leaking}, windows=20)
    assert causes(kept)[0] == "env-state-leak"
    assert diagnose.diagnose(kept)[0].where == "train.py:3"
    longer = PPO_COUNTS | {"episodes": 10, "episode_steps": lambda i: 1_000.0 + 500 * i}
    fine = make_run(tmp_path / "b", shares, longer, scale=rising, sources={"train.py": SLOW_ENV}, windows=20)
    assert causes(fine) == ["harder-states"]
    assert diagnose.diagnose(fine)[0].saved.speedup() == (1.0, 1.0, 1.0)


def test_findings_that_explain_each_other_are_merged():
    found = diagnose._merged(
        {
            "env-render": Finding("env-render", "collect/env_step", ("",), Saved(0.4, 0.3, 0.5)),
            "env-python-loop": Finding("env-python-loop", "collect/env_step", ("",), Saved(0.45, 0.3, 0.5)),
            "dist-validate": Finding("dist-validate", "collect/act", ("",), Saved(0.1, 0.1, 0.1)),
        }
    )
    assert [finding.cause for finding in found] == ["env-render", "dist-validate"]
    assert found[0].merged == ("env-python-loop",)


def test_the_document_is_what_the_design_promises(tmp_path):
    counts = PPO_COUNTS | {"slept_seconds@collect/env_step": 0.3 * 0.25}
    doc = diagnose.document(make_run(tmp_path / "r", PPO, counts))
    assert doc["schema"] == "hotlap.diagnose/1" and doc["run"]
    first = doc["findings"][0]
    assert {"cause", "stage", "evidence", "where", "projected", "changes_learning", "fix"} <= first.keys()
    low, high = first["projected"]["ci95"]
    assert 1 < low <= first["projected"]["speedup"] <= high
    json.dumps(doc)


def test_shares_of_stacks_follow_their_stages(tmp_path):
    """Half of the looks into a stage with 30% of the time are 15% of the time."""
    own = [("main", "train.py", 1)]
    stacks = [("collect/env_step", [*own, ("a", "x.py", 1)], 1.0), ("collect/env_step", [*own, ("b", "x.py", 2)], 1.0)]
    evidence = Evidence(make_run(tmp_path / "r", PPO, PPO_COUNTS, stacks=stacks, sources={"train.py": "x = 1\n"}))
    assert evidence.time_in(lambda look: look.frames[-1].name == "a") == pytest.approx(0.15, rel=0.01)


def test_code_knows_loops_functions_and_classes():
    code = Code(SLOW_ENV)
    assert [type(loop).__name__ for loop in code.loops(8)] == ["For"]
    assert code.loops(7) == [] and code.loops(3) == []
    assert code.function(8).name == "fill" and code.class_of(8).name == "Grid" and code.class_of(14) is None
    assert Code("def broken(:\n").loops(1) == []


def test_the_page_of_causes_is_up_to_date():
    import runpy
    from pathlib import Path

    docs = Path(__file__).parent.parent / "docs"
    assert runpy.run_path(str(docs / "make_causes.py"))["page"]() == (docs / "causes.md").read_text()

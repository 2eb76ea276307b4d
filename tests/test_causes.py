"""Rules on hand-made runs: each cause where it is, the guides' wrong verdicts avoided, and nothing on a healthy run."""

import ast
import json
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap import causes
from hotlap.causes import BUILT_IN, Cause, Evidence, Saved, Suspicion
from hotlap.causes.remedy import Context
from hotlap.causes.trips import trips
from hotlap.core import units
from hotlap.core.counts import SPILLED_BYTES
from hotlap.core.errors import RecordError
from hotlap.core.sample import Sample
from hotlap.experiment.rows import compare_blocks
from hotlap.interventions import CHANGES
from hotlap.interventions.code import Code
from hotlap.interventions.intervention import patched
from hotlap.interventions.knobs import Knob
from hotlap.probe.usage import Usage
from hotlap.record import codec
from hotlap.record.blocks import Block, BlockLine
from hotlap.record.comparison import Verdict
from hotlap.record.files import SOURCES, STACKS
from hotlap.record.finding import Projection
from hotlap.record.lines import Recorded, append_line
from hotlap.record.observed import EnvChain
from hotlap.record.run import load
from tests.causes_scenarios import SCENARIOS, scenario
from tests.made_runs import LEARNING, MS, PPO, PPO_COUNTS, ROWS_ONE_BY_ONE, SLOW_ENV, SUBPROCESSES, make_run, steps, worker

HERE = Path(__file__).parent
BEFORE = json.loads((HERE / "data" / "findings.json").read_text())  # what was found in the same runs before
ADVICE_ONLY = {
    "broadcast-payload",
    "batch1-inference",
    "replay-h2d",
    "compile-unamortized",
    "hidden-sync",
    "gpu-sim-numpy",
    "gil-locks",
    "harder-states",
    "learning-starts",
    "store-spill",
}


def found_in(run):
    return [finding.cause for finding in causes.diagnose(run).findings]


# -- entries --


def test_every_cause_has_words_and_an_experiment_or_says_that_it_has_none():
    assert len(BUILT_IN) == sum(len(family.CAUSES) for family in causes.FAMILIES) == 57  # no id twice
    for id, cause in BUILT_IN.items():
        assert cause.id == id and cause.title and cause.fix and cause.sources and cause.rule.__doc__
        assert (cause.confirm is None) == (cause.remedies is None) == (id in ADVICE_ONLY), id
        assert set(cause.explains) <= BUILT_IN.keys() - {id}
    assert {id for id, cause in BUILT_IN.items() if cause.no_fault} == {"harder-states", "learning-starts"}


def test_an_entry_that_promises_an_experiment_and_has_none_is_refused():
    with pytest.raises(ValueError, match="slow: an experiment needs both"):
        Cause("slow", "it is slow", "be fast", rule=lambda e: None, confirm="try it")


def test_the_page_of_causes_is_up_to_date():
    docs = HERE.parent / "docs"
    page = (docs / "causes.md").read_text()
    assert runpy.run_path(str(docs / "make_causes.py"))["page"]() == page
    assert page.count("advice only") == len(ADVICE_ONLY - {"harder-states", "learning-starts"})


# -- rules --


@pytest.mark.parametrize("name", SCENARIOS)
def test_findings_are_those_of_before(name, tmp_path):
    """Thresholds, order, merging and projections stay as they are unless a change of the rules says otherwise."""
    findings = codec.to_json(causes.diagnose(scenario(name, tmp_path / "r")).findings)
    assert len(findings) == len(BEFORE[name])
    for now, before in zip(findings, BEFORE[name], strict=True):
        assert {key: now[key] for key in ("cause", "stage", "where", "merged")} == {
            key: before[key] for key in ("cause", "stage", "where", "merged")
        }
        assert now["projected"]["speedup"] == pytest.approx(before["projected"]["speedup"], rel=1e-9)
        assert now["projected"]["ci95"] == pytest.approx(before["projected"]["ci95"], rel=1e-9)
        assert now["parameters"] == pytest.approx(before["parameters"])


def test_every_rule_fires_in_some_scenario():
    """Except the one that never could, which has a test below."""
    fired = {cause for rows in BEFORE.values() for row in rows for cause in (row["cause"], *row["merged"])}
    assert fired == BUILT_IN.keys() - {"store-spill"}


def test_a_healthy_run_yields_nothing(tmp_path):
    assert found_in(scenario("healthy", tmp_path / "r")) == []


def test_seed_000_is_overhead_of_tiny_minibatches_not_the_transformer(tmp_path):
    """1,250 updates of 32 rows in 18.5 s of which arithmetic needs little, with a net of 401k parameters, 512 wide."""
    first, *rest = causes.diagnose(scenario("tiny-minibatch", tmp_path / "r")).findings
    assert first.cause == "tiny-minibatch" and "oversized-net" not in [finding.cause for finding in rest]
    assert "its arithmetic needs" in first.evidence[1]
    assert first.projected.speedup > 2 and first.changes_learning


def test_seed_001_the_effect_of_turbo_is_not_measurable():
    """+1.2% between runs that differ by 5% from round to round is no verdict."""
    noise = [0.0, 0.05, -0.05, 0.03, -0.04, 0.02]
    lines = [
        BlockLine(r, t, variant, Block((1 + n) / gain, counts={"env_steps": 1000.0}, stages={"collect": 1.0}, rss=1))
        for r, n in enumerate(noise, 1)
        for t in (1, 2)
        for variant, gain, n in (("off", 1.0, 0.0), ("on", 1.012, n))
    ]
    comparison = compare_blocks(lines, "off", "on", "env_steps", 0.02)
    assert comparison.verdict in (Verdict.SAME, Verdict.TOO_FEW)
    assert comparison.ci95[0] < 1 < comparison.ci95[1]
    assert comparison.smallest_effect > 0.012


def test_seed_004_separates_payload_contention_and_barriers(tmp_path):
    assert found_in(scenario("payload", tmp_path / "a"))[0] == "ipc-payload"
    assert found_in(scenario("straggler", tmp_path / "b"))[0] == "vec-straggler"
    contention = found_in(scenario("contention", tmp_path / "c"))
    assert contention[0] in ("env-oversubscribe", "subproc-cheap-env")
    assert "ipc-payload" not in contention and "vec-straggler" not in contention


def test_a_python_loop_in_the_environment_is_found_with_its_line(tmp_path):
    first, *_ = causes.diagnose(scenario("python-loop", tmp_path / "r")).findings
    assert first.cause == "env-python-loop" and first.where == "train.py:8"


def test_the_same_loop_around_the_environment_is_not_blamed(tmp_path):
    stack = [("main", "train.py", 15), ("step", "train.py", 3)]
    shares, sources = PPO | {"collect/env_step": 0.6}, {"train.py": SLOW_ENV}
    run = make_run(tmp_path / "r", shares, PPO_COUNTS, stacks=[("collect/env_step", stack, 2.0)], sources=sources)
    assert "env-python-loop" not in found_in(run)


def test_a_loop_over_rows_in_the_loss_is_named_with_its_trips_and_their_cost(tmp_path):
    """CleanRL's C51 projects its 128 distributions one by one."""
    first, *_ = causes.diagnose(scenario("loss-loop", tmp_path / "r")).findings
    assert first.cause == "loss-python-loop" and first.where == "train.py:6"
    each = 0.3 * 0.3 / 16 / 128  # of windows of 0.3 s with 16 updates, 3/4 of the 40% that are loss
    assert first.evidence[1] == f"The loop at train.py:5 makes 128 trips per update, {units.seconds(each)} each."


@pytest.mark.parametrize(
    "loop",
    [
        "for layer in self.layers:\n        x[i] = layer(x)",  # of a network
        "for t in range(16):\n        h = cell(x[t], h)",  # a recurrence
        "for p in net.parameters():\n        p[i] *= 0.9",  # another cause
        "for i in range(4):\n        loss.backward(x[i])",  # it learns
    ],
)
def test_other_loops_in_the_loss_are_not_over_rows(loop, tmp_path):
    text = ROWS_ONE_BY_ONE.replace("for i in range(target.size(0)):\n        target[i].index_add_(0, low[i], mass[i])", loop)
    assert text != ROWS_ONE_BY_ONE
    run = make_run(tmp_path / "r", **SCENARIOS["loss-loop"] | {"sources": {"train.py": text}})
    assert "loss-python-loop" not in found_in(run)


@pytest.mark.parametrize(
    ("loop", "number"),
    [
        ("range(10)", 10),
        ("reversed(range(N))", 8),
        ("range(1, N + 1)", 8),
        ("range(self.size)", 5),
        ("range(TWICE)", None),
        ("range(argument)", None),
        ("range(len(batch))", 512),
        ("range(num_envs)", 32),
        ("numbers", None),
    ],
)
def test_trips_are_known_where_the_code_says_them(loop, number, tmp_path):
    text = f"""\
N = 8
TWICE = 1
TWICE = 2
class Box:
    size = 3
    def __init__(self):
        self.size = 5
    def learn(self, argument):
        for i in {loop}:
            print(i)
"""
    stacks = [("update/loss", [("learn", "train.py", 10)], 1.0)]
    evidence = Evidence(make_run(tmp_path / "r", PPO, PPO_COUNTS, stacks=stacks, sources={"train.py": text}))
    (stack,) = evidence.stack_samples
    (work,) = evidence.work_loops(stack)
    assert trips(evidence, work, stack.stage) == number


def test_no_run_is_called_fine_while_a_place_takes_15_percent(tmp_path):
    (finding,) = causes.diagnose(scenario("tree-search", tmp_path / "a")).findings
    assert finding.cause == "hot-spot" and finding.where == "train.py:4" and finding.stage == "unattributed"
    said = " ".join(finding.evidence)
    assert "run(), took 60.0% of the time, mostly in Python itself: leaf = self.select(state)" in said
    assert "The training loop calls it at train.py:16." in said and "50 trips" in said
    assert finding.projected.speedup > 1.15 and "numpy" in finding.fix
    (native,) = causes.diagnose(scenario("native-loop", tmp_path / "b")).findings
    assert native.cause == "hot-spot" and native.projected.speedup == 1  # what to gain there nobody knows


def test_what_training_is_made_of_is_no_hot_spot(tmp_path):
    """A framework's learn(), a network's pass and a library's environment take their time."""
    learn = ("main", "train.py", 2)
    stacks = [
        ("update/loss", [learn, ("train", "lib/ppo.py", 9)], 3.0),
        ("update/backward", [learn, ("train", "lib/ppo.py", 10)], 2.0),
        ("collect/act", [learn, ("_call_impl", "torch/nn/modules/module.py", 1)], 2.0),
        ("collect/env_step", [learn, ("step", "gymnasium/env.py", 1)], 2.0),
    ]
    run = make_run(tmp_path / "r", PPO, PPO_COUNTS, stacks=stacks, sources={"train.py": "def main():\n    model.learn(100)\n"})
    assert found_in(run) == []


def test_a_cause_that_explains_the_time_of_a_place_leaves_no_hot_spot(tmp_path):
    assert found_in(scenario("python-loop", tmp_path / "a")) == ["env-python-loop"]
    assert found_in(scenario("deepcopy", tmp_path / "b")) == ["env-deepcopy"]


def test_sleep_is_named_by_its_seconds(tmp_path):
    first, *_ = causes.diagnose(scenario("throttle", tmp_path / "r")).findings
    assert first.cause == "env-realtime-throttle"
    assert first.projected.speedup == pytest.approx(1 / (1 - 0.25), rel=0.01)


NO_ENVIRONMENT = {"update/loss": 0.3, "update/backward": 0.2}


@pytest.mark.parametrize(
    ("code", "inner", "cause"),
    [
        ("time.sleep(0.01)", (), "env-realtime-throttle"),
        ("self.clock.tick(40)", (), "env-realtime-throttle"),
        ("plt.plot(scores)", (("plot", "lib/matplotlib/pyplot.py", 1),), "env-render"),
        ("row = table.loc[now]", (("loc", "lib/pandas/core.py", 1),), "env-pandas-index"),
        ("twin = copy.deepcopy(game)", (("deepcopy", "lib/copy.py", 1),), "env-deepcopy"),
        ("log.write(text)", (), "logger-per-step"),
        ("x = torch.tensor([b.state for b in batch])", (), "list-to-tensor"),
    ],
)
def test_lines_are_blamed_in_whatever_stage_they_are(code, inner, cause, tmp_path):
    """Also where no environment was recognised."""
    stacks = [("", [("main", "train.py", 3), *inner], 2.0), ("update/backward", [("main", "train.py", 4)], 1.0)]
    text = f"def main():\n    while True:\n        {code}\n        loss.backward()\n"
    run = make_run(tmp_path / "r", NO_ENVIRONMENT, {"updates": 16}, stacks=stacks, sources={"train.py": text}, environments=())
    first, *_ = causes.diagnose(run).findings
    assert first.cause == cause and first.where == "train.py:3" and first.projected.speedup > 1.5


def test_a_loop_that_sleeps_until_something_happens_is_no_throttle(tmp_path):
    text = "def main():\n    while queue.empty():\n        time.sleep(0.01)\n    loss.backward()\n"
    stacks = [("", [("main", "train.py", 3)], 2.0)]
    run = make_run(tmp_path / "r", NO_ENVIRONMENT, {"updates": 16}, stacks=stacks, sources={"train.py": text})
    (finding,) = causes.diagnose(run).findings
    assert finding.cause == "hot-spot"


@pytest.mark.parametrize(
    ("code", "is_list"),
    [
        ("x = torch.tensor(observation)", False),  # that a step returned
        ("x = torch.tensor(np.array(states))", False),
        ("x = torch.as_tensor(array)", False),
        ("x = torch.tensor(rewards)", True),
        ("x = torch.tensor(column)", True),
        ("x = torch.tensor(list(batch))", True),
    ],
)
def test_one_array_is_no_list(code, is_list, tmp_path):
    text = f"""\
def main():
    rewards = []
    array = np.zeros(4)
    column, rest = zip(*batch)
    observation, reward, done, info = env.step(0)
    rewards.append(reward)
    {code}
"""
    stacks = [("collect/act", [("main", "train.py", 7)], 1.0), ("collect/act", [("main", "train.py", 2)], 2.0)]
    run = make_run(tmp_path / "r", PPO, PPO_COUNTS, stacks=stacks, sources={"train.py": text})
    assert ("list-to-tensor" in found_in(run)) == is_list


def test_random_actions_are_choices_too(tmp_path):
    """Epsilon-greedy: the network chose once in a hundred steps, and there is an update every other step."""
    counts = SCENARIOS["utd"]["counts"] | {"env_steps": 10, "updates": 5, "forwards@collect/act": 0.1}
    assert "utd-high" not in found_in(make_run(tmp_path / "r", **SCENARIOS["utd"] | {"counts": counts}))


def test_an_evaluation_needs_no_episodes(tmp_path):
    text = "def evaluate_q(net):\n    return net(held_out).mean()\n\ndef main():\n    evaluate_q(net)\n"
    stack = [("main", "train.py", 5), ("evaluate_q", "train.py", 2), ("_call_impl", "torch/nn/modules/module.py", 1)]
    stacks = [("collect/act", stack, 2.0, 2.0), ("collect/act", [("main", "train.py", 5)], 1.0)]
    shares = PPO | {"collect/act": 0.6, "update/backward": 0.05, "update/loss": 0.05}
    first, *_ = causes.diagnose(
        make_run(tmp_path / "r", shares, PPO_COUNTS, stacks=stacks, sources={"train.py": text})
    ).findings
    assert first.cause == "eval-dominates" and first.where == "train.py:2" and "34.8%" in first.evidence[0]


def test_an_optimizer_written_by_hand_is_a_loop_over_parameters(tmp_path):
    text = "def update(self):\n    for w, m in zip(self.weights, self.m):\n        w -= m\n"
    stacks = [("update/optimizer", [("update", "train.py", 3)], 2.0)]
    shares = PPO | {"update/optimizer": 0.4, "update/backward": 0.05}
    first, *_ = causes.diagnose(
        make_run(tmp_path / "r", shares, PPO_COUNTS, stacks=stacks, sources={"train.py": text})
    ).findings
    assert first.cause == "per-param-loops" and first.where == "train.py:3"


def test_one_slow_worker_holds_up_the_others(tmp_path):
    """Three workers step in 0.1 ms, the fourth in 5 ms; each vector step takes 6 ms."""
    run = make_run(
        tmp_path / "r", SUBPROCESSES, steps(160), environments=(EnvChain(("AsyncVectorEnv",), num_envs=4),), workers=worker()
    )
    for path in sorted((run.path / "workers").glob("*.jsonl")):
        path.unlink()
    for number, seconds in enumerate((1e-4, 1e-4, 1e-4, 5e-3)):
        for i in range(12):
            busy = {"collect/env_step": int(40 * seconds * 1e9)}
            sample = Sample(
                i * 300 * MS, 300 * MS, busy, busy, {"collect/env_step": 40}, {"env_steps": 40.0, "cpu_seconds": 0.1}
            )
            append_line(run.path / "workers" / f"{number}.jsonl", Recorded("train", sample, 10**8))
    first, *_ = causes.diagnose(load(run.path)).findings
    assert first.cause == "vec-straggler" and "worker 3 takes 5" in first.evidence[0]


def test_subprocesses_are_right_for_heavy_environments_and_wrong_for_light_ones(tmp_path):
    """The same layout, the answer flips with the cost of a step."""
    assert found_in(scenario("cheap", tmp_path / "a"))[0] == "subproc-cheap-env"
    assert "subproc-cheap-env" not in found_in(scenario("heavy-workers", tmp_path / "b"))


def test_a_leak_is_told_from_harder_states(tmp_path):
    """Steps get slower in both; where episodes grow as well and nothing piles up, it is no fault."""
    first, *_ = causes.diagnose(scenario("env-leak", tmp_path / "a")).findings
    assert first.cause == "env-state-leak" and first.where == "train.py:3" and not first.no_fault
    (only,) = causes.diagnose(scenario("harder-states", tmp_path / "b")).findings
    assert only.cause == "harder-states" and only.no_fault and only.confirm is None
    assert only.projected.speedup == 1.0 and only.projected.ci95 == (1.0, 1.0)


@pytest.mark.parametrize(("limit", "swaps"), [(None, False), (4_000_000_000, True), (16_000_000_000, False)])
def test_swapping_is_seen_against_the_containers_limit(limit, swaps, tmp_path):
    """3 GB are much of a container of 4 GB, and little of a machine of 8 GB."""
    settings = SCENARIOS["swap"] | {"peak": 3_000_000_000, "memory_limit": limit}
    assert ("replay-swap" in found_in(make_run(tmp_path / "r", **settings))) == swaps


def test_spilling_of_rays_store_is_counted_and_named(tmp_path, monkeypatch):
    session = tmp_path / "session"
    spill = session / "ray_spilled_objects_0123"
    spill.mkdir(parents=True)
    worker = ModuleType("ray._private.worker")
    worker._global_node = SimpleNamespace(get_session_dir_path=lambda: str(session))
    monkeypatch.setitem(sys.modules, "ray._private.worker", worker)
    usage = Usage()
    try:
        (spill / "a-multi-1").write_bytes(b"x" * 3_000)
        assert usage.since()[SPILLED_BYTES] == 3_000
        (spill / "a-multi-1").unlink()  # needed no more
        assert SPILLED_BYTES not in usage.since()
        (spill / "b-multi-1").write_bytes(b"x" * 500)
        assert usage.since()[SPILLED_BYTES] == 500
    finally:
        usage.close()
    (finding,) = causes.diagnose(make_run(tmp_path / "r", PPO, PPO_COUNTS | {SPILLED_BYTES: 3e8})).findings
    assert finding.cause == "store-spill" and "1.00 GB per second" in finding.evidence[0]


def test_losses_without_a_single_update_are_no_reason_to_fail(tmp_path):
    counts = SCENARIOS["tiny-minibatch"]["counts"] | {"updates": 0}
    assert "tiny-minibatch" not in found_in(make_run(tmp_path / "r", **SCENARIOS["tiny-minibatch"] | {"counts": counts}))


def test_suspicions_that_explain_each_other_are_merged():
    suspicions = {
        "env-render": Suspicion("collect/env_step", ("",), Saved(0.4, 0.3, 0.5)),
        "env-python-loop": Suspicion("collect/env_step", ("",), Saved(0.45, 0.3, 0.5)),
        "dist-validate": Suspicion("collect/act", ("",), Saved(0.1, 0.1, 0.1)),
    }
    assert causes.merge(suspicions, BUILT_IN) == {"env-render": ("env-python-loop",), "dist-validate": ()}
    suspicions["env-python-loop"] = Suspicion("collect/env_step", ("",), Saved(0.9, 0.3, 0.95))
    assert len(causes.merge(suspicions, BUILT_IN)) == 3  # more than twice as much to gain: it stays


def test_free_fixes_come_first_then_recipes_then_small_fixes_then_facts(tmp_path):
    entries = {
        "free": Cause("free", "t", "f", lambda e: Suspicion("update", ("",), Saved(0.2, 0.1, 0.3))),
        "recipe": Cause("recipe", "t", "f", lambda e: Suspicion("update", ("",), Saved(0.5, 0.4, 0.6)), changes_learning=True),
        "small": Cause("small", "t", "f", lambda e: Suspicion("update", ("",), Saved(0.1, 0.05, 0.15))),
        "tiny": Cause("tiny", "t", "f", lambda e: Suspicion("update", ("",), Saved(0.04, 0.02, 0.1))),
        "fact": Cause("fact", "t", "f", lambda e: Suspicion("update", ("",)), no_fault=True),
    }
    evidence = Evidence(scenario("healthy", tmp_path / "r"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(causes, "BUILT_IN", entries)
        patch.setattr(causes, "catalogue", lambda: causes.Catalogue(entries))
        assert [finding.cause for finding in causes.findings(evidence)] == ["free", "recipe", "small", "fact"]


shares = st.floats(-0.5, 1.5)


@given(shares, shares, shares)
def test_a_projection_lies_inside_its_interval(value, low, high):
    """Whatever shares a rule came up with."""
    projected = Saved(value, low, high).projection()
    least, most = projected.ci95
    assert least < projected.speedup < most or projected == Projection(1.0, (1.0, 1.0))


@given(st.floats(0.1, 50), st.floats(0.1, 50), st.floats(0.1, 50))
def test_an_interval_that_was_recorded_the_wrong_way_round_is_read_as_one(speedup, low, high):
    projected = codec.from_json(Projection, {"speedup": speedup, "ci95": [low, high]}, "r")
    assert projected.ci95[0] < speedup < projected.ci95[1] or projected == Projection(1.0, (1.0, 1.0))


# -- experiments --


def _remedies(name, path, knobs=(), **changes):
    run = make_run(path, **SCENARIOS[name] | changes)
    evidence = Evidence(run)
    context = Context(evidence, evidence.codes, knobs)
    findings = {finding.cause: finding for finding in causes.findings(evidence)}
    return evidence, {cause: causes.remedies(context, finding) for cause, finding in findings.items()}


@pytest.mark.parametrize("name", SCENARIOS)
def test_experiments_can_be_made(name, tmp_path):
    """Whatever is offered: its changes exist, and its edits give Python; a system only gets other values in its config."""
    evidence, offered = _remedies(name, tmp_path / "r")
    texts = {file: code.text for file, code in evidence.codes.items()}
    for cause, interventions in offered.items():
        assert not interventions or BUILT_IN[cause].confirm is not None
        for intervention in interventions:
            assert intervention.title and {change.name for change in intervention.changes} <= CHANGES.keys()
            for text in patched(intervention, texts).values():
                ast.parse(text)
            assert bool(intervention.config) == evidence.is_system


def test_causes_whose_experiments_were_only_promised_have_them(tmp_path):
    buffer = "size = Buffer(buffer_size=100_000)\n"
    knob = [Knob("--buffer-size", "100000")]

    def only(name, cause, **changes):
        (intervention,) = _remedies(name, tmp_path / f"{name}-{len(list(tmp_path.iterdir()))}", **changes)[1][cause]
        return intervention

    def line(intervention):
        return "".join(edit.lines[0] for edit in intervention.edits["train.py"])

    smaller = only("sampler-growth", "sampler-capacity", sources={"train.py": buffer})
    assert "buffer_size=max(1, int(100_000) // 100)" in line(smaller) and smaller.upper_bound
    assert only("sampler-growth", "sampler-capacity", knobs=knob).arguments == ("--buffer-size", "1000")
    quarter = only("swap", "replay-swap", knobs=knob)
    assert quarter.arguments == ("--buffer-size", "25000") and quarter.changes_learning and not quarter.upper_bound
    clipped = LEARNING.replace("    loss.backward()", "    clip_grad_norm_(net.parameters(), 0.5)")
    unclipped = only("clip-sync", "clip-sync", sources={"train.py": clipped})
    assert line(unclipped).strip() == "pass" and unclipped.upper_bound and unclipped.changes_learning
    assert _remedies("clip-sync", tmp_path / "framework")[1]["clip-sync"] == []  # the line to blame calls something that clips
    assert line(only("env-leak", "env-state-leak")).strip() == "pass"
    assert "recorded" in line(only("jax", "jax-unjitted-step"))
    dispatch = [("main", "train.py", 15), ("step", "library.py", 3), ("bind", "jax/_src/core.py", 9)]
    around = _remedies("jax", tmp_path / "library", stacks=[("collect/env_step", dispatch, 2.0)])
    assert around[1]["jax-unjitted-step"] == []  # that would record the training loop


# -- the record --


def test_the_document_is_what_the_design_promises(tmp_path):
    document = codec.to_json(causes.diagnose(scenario("throttle", tmp_path / "r")))
    assert document["schema"] == "hotlap.diagnose/2" and document["run"] and document["verb"] == "diagnose"
    first = document["findings"][0]
    assert {"cause", "stage", "evidence", "where", "projected", "changes_learning", "fix"} <= first.keys()
    low, high = first["projected"]["ci95"]
    assert 1 < low <= first["projected"]["speedup"] <= high
    assert codec.from_json(causes.Diagnosis, json.loads(json.dumps(document)), "d") == causes.diagnose(load(tmp_path / "r"))


def test_shares_of_stacks_follow_their_stages(tmp_path):
    """Half of the stack samples in a stage with 30% of the time are 15% of the time."""
    outer = [("main", "train.py", 1)]
    stacks = [("collect/env_step", [*outer, ("a", "x.py", 1)], 1.0), ("collect/env_step", [*outer, ("b", "x.py", 2)], 1.0)]
    evidence = Evidence(make_run(tmp_path / "r", PPO, PPO_COUNTS, stacks=stacks, sources={"train.py": "x = 1\n"}))
    assert evidence.time_in(lambda stack: stack.frames[-1].name == "a") == pytest.approx(0.15, rel=0.01)
    assert [stack.user_frame.name for stack in evidence.stack_samples] == ["main", "main"]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (STACKS, "{"),
        (STACKS, '{"frames": []}'),
        (STACKS, '{"frames": [{"name": "f", "file": "x.py", "line": "one"}], "stacks": []}'),
        (STACKS, '{"frames": [], "stacks": [["update", [0], 1.0, 0.0]]}'),
        (STACKS, '{"frames": [], "stacks": [["update", [-1], 1.0, 0.0]]}'),
        (STACKS, '{"frames": [], "stacks": [["update", [], 1e400, 0.0]]}'),
        (STACKS, "[" * 100_000),
        (SOURCES, '{"train.py": 1}'),
        (SOURCES, "[]"),
    ],
)
def test_a_damaged_file_gives_a_clear_error(file, content, tmp_path):
    run = scenario("python-loop", tmp_path / "r")
    (run.path / file).write_text(content)
    with pytest.raises(RecordError, match=f"{file} is damaged"):
        causes.diagnose(run)


def test_a_run_without_a_sampler_has_no_stacks_and_old_stacks_have_no_native_time(tmp_path):
    run = scenario("python-loop", tmp_path / "r")
    content = json.loads((run.path / STACKS).read_text())
    content["stacks"] = [stack[:3] for stack in content["stacks"]]
    (run.path / STACKS).write_text(json.dumps(content))
    assert found_in(run) == ["env-python-loop"]
    (run.path / STACKS).unlink()
    (run.path / SOURCES).unlink()
    assert found_in(run) == []


@pytest.mark.parametrize("text", ["x = " + "-" * 3_000 + "1\n", "x = " + "(" * 5_000 + "\n", "x = 1" + "+1" * 20_000 + "\n"])
def test_code_that_is_nested_without_end_gives_no_traceback(text, tmp_path):
    """Either Python does not parse it, and rules see no code, or there is one clear line."""
    stacks = [("update/loss", [("f", "train.py", 1)], 1.0), ("collect/env_step", [("step", "train.py", 1)], 1.0)]
    run = make_run(tmp_path / "r", PPO, PPO_COUNTS, stacks=stacks, sources={"train.py": text})
    try:
        causes.diagnose(run)
    except RecordError as error:
        assert str(error).endswith("sources.json is damaged: code that is nested too deeply")


def test_code_knows_loops_functions_and_classes():
    code = Code(SLOW_ENV)
    assert [type(loop).__name__ for loop in code.loops(8)] == ["For"]
    assert code.loops(7) == [] and code.loops(3) == []
    assert code.function(8).name == "fill" and code.class_of(8).name == "Grid" and code.class_of(14) is None
    assert Code("def broken(:\n").loops(1) == []

"""Interventions: each changes what it says and leaves no trace; rewrites give code that does the same; flags are found."""

import json
import os
import subprocess
import sys
import textwrap
import time

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hotlap import interventions
from hotlap.core.errors import UsageError
from hotlap.experiment.interleave import Side
from hotlap.interventions import batching, beside, kernels, knobs, layouts, rewrite, source, switches
from hotlap.interventions.changing import TOOK
from hotlap.interventions.code import Code
from hotlap.interventions.edit import Edit, Overlap, apply, diff
from hotlap.interventions.intervention import Intervention, patched, side_of, together


def test_every_change_is_undone():
    """Of what each of them replaces, nothing stays."""
    watched = [
        (torch, "set_num_threads"),
        (torch, "compile"),
        (torch, "save"),
        (torch, "from_numpy"),
        (torch, "float64"),
        (torch.nn.Module, "__call__"),
        (torch.optim.Adam, "__init__"),
        (torch.autograd, "set_detect_anomaly"),
        (torch.distributions.Distribution, "_validate_args"),
        (time, "sleep"),
        (np.random, "seed"),
        (gymnasium.vector, "AsyncVectorEnv"),
        (gymnasium.vector, "SyncVectorEnv"),
        (gymnasium.Wrapper, "__new__"),
        (gymnasium.Env, "__init_subclass__"),
        (os.environ, "__class__"),
    ]
    options = {"threads": {"number": 1}, "affinity": {"cores": sorted(os.sched_getaffinity(0))}, "peel": {"names": ["x"]}}
    options |= {"seed": {"offset": 3}, "source": {"texts_in": ""}}
    before = [getattr(owner, name) for owner, name in watched]
    finders, variables, threads = list(sys.meta_path), dict(os.environ), torch.get_num_threads()
    for name, change in interventions.CHANGES.items():
        with change(**options.get(name, {})):
            pass
        for (owner, attribute), value in zip(watched, before, strict=True):
            assert getattr(owner, attribute) == value, (name, attribute)
        assert sys.meta_path == finders and dict(os.environ) == variables, name
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")


def test_switches_change_what_they_say():
    torch.distributions.Distribution.set_default_validate_args(True)  # Stable-Baselines3, once imported, has it off
    with switches.validate_off():
        torch.distributions.Categorical(logits=torch.full((2,), float("nan")))  # would be refused
    with pytest.raises(ValueError, match="nan"):
        torch.distributions.Categorical(logits=torch.full((2,), float("nan")))
    with switches.anomaly_off():
        torch.autograd.set_detect_anomaly(True)
    assert not torch.is_anomaly_enabled()
    with switches.foreach():
        assert torch.optim.Adam([torch.zeros(1, requires_grad=True)]).param_groups[0]["foreach"] is True
    with switches.float32():
        net = torch.nn.Linear(2, 2).double()
        assert net.weight.dtype == torch.float32
        assert torch.from_numpy(np.zeros(2)).dtype == torch.float32
    began = time.perf_counter()
    with beside.sleep_off():
        time.sleep(5)
    assert time.perf_counter() - began < 1
    with switches.seed(7):
        torch.manual_seed(1)
        moved = torch.rand(1)
    torch.manual_seed(8)
    assert torch.equal(moved, torch.rand(1))


def test_layouts_swap_where_environments_run():
    make = [lambda: gymnasium.make("CartPole-v1")] * 2
    with layouts.one_process():
        env = gymnasium.vector.AsyncVectorEnv(make, shared_memory=True)
        assert isinstance(env, gymnasium.vector.SyncVectorEnv)
    env.reset(seed=0)
    assert env.step(np.zeros(2, int))[0].shape == (2, 4)
    with layouts.worker_processes():
        env = gymnasium.vector.SyncVectorEnv(make)
        assert isinstance(env, gymnasium.vector.AsyncVectorEnv)
        env.reset(seed=0)
        assert env.step(np.zeros(2, int))[0].shape == (2, 4)
        env.close()


def test_wrappers_are_peeled_and_infos_emptied():
    with layouts.peel(["TimeLimit", "Doubling"]), layouts.infos_empty():

        class Doubling(gymnasium.RewardWrapper):
            def reward(self, reward):
                return 2 * reward

        class Talks(gymnasium.Env):
            observation_space = action_space = gymnasium.spaces.Discrete(2)

            def step(self, action):
                return 0, 1.0, bool(action), False, {"much": "to say"}

        env = Doubling(Talks())
        assert type(env).__name__ == "Talks"
        assert env.step(0) == (0, 1.0, False, False, {})
        assert env.step(1)[4] == {"much": "to say"}


def test_a_process_makes_the_changes_it_is_told(tmp_path):
    """Through the environment: of the script's text, and of what it imports."""
    script = tmp_path / "script.py"
    (tmp_path / "helper.py").write_text("WORD = 'as it is'\n")
    script.write_text("import helper, time\ntime.sleep(60)\nprint(helper.WORD, 'old')\n")
    subprocess.run([sys.executable, "-c", "import helper"], cwd=tmp_path, check=True)  # there is bytecode of it
    files = {str(script): script.read_text().replace("old", "new"), str(tmp_path / "helper.py"): "WORD = 'changed'\n"}
    (tmp_path / "texts.json").write_text(json.dumps(files))
    variables = interventions.variable([("sleep-off", {}), ("source", {"texts_in": str(tmp_path / "texts.json")})])
    code = (
        "import sys; from hotlap.interventions import intervened; from hotlap.launch.child import execute\n"
        f"with intervened(): print(execute({{'module': False, 'script': {str(script)!r}}}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, timeout=50, check=True
    )
    assert done.stdout.splitlines() == ["changed new", "(0, None)"]
    assert script.read_text().endswith("'old')\n")


def test_recorded_and_rarer_functions():
    calls = []

    def work(x):
        calls.append(x)
        return x * x

    fast = source.recorded(work)
    results = [fast(i) for i in range(30)]
    assert len(calls) == source.KEPT and set(results) <= {i * i for i in range(source.KEPT)}
    calls.clear()
    seldom = source.rarer(10)(work)
    assert [seldom(i) for i in range(11)] == [0] * 10 + [100] and calls == [0, 10]


# -- rewriting --


def run_code(text, **names):
    scope = dict(names)
    exec(compile(text, "<test>", "exec"), scope)
    return scope


PUSHES = textwrap.dedent(
    """\
    import torch
    def collect(actions, rewards, states, out):
        for step in range(1):
            for i in range(len(actions)):
                out.append((states[i].cpu().numpy().sum(), actions[i].item(), rewards[i].item()))
    """
)


def test_numbers_are_read_before_the_loop_and_stay_the_same():
    code = Code(PUSHES)
    text = apply(PUSHES, rewrite.hoisted_items(code, 5))
    assert "actions_values = actions.reshape(-1).tolist()" in text and ".item()" not in text
    data = (torch.arange(4), torch.rand(4), torch.rand(4, 3))
    old, new = [], []
    run_code(PUSHES)["collect"](*data, old)
    run_code(text)["collect"](*data, new)
    assert old == new
    reassigned = PUSHES.replace("            out.append", "            actions = actions + 0\n            out.append")
    assert "actions_values" not in apply(reassigned, rewrite.hoisted_items(Code(reassigned), 6))


def test_the_kernel_computes_what_stable_baselines_does():
    buffers = pytest.importorskip("stable_baselines3.common.buffers")
    space, rng = gymnasium.spaces.Box(-1, 1, (2,)), np.random.default_rng(0)

    def filled():
        buffer = buffers.RolloutBuffer(16, space, gymnasium.spaces.Discrete(2), gamma=0.97, gae_lambda=0.9, n_envs=3)
        generator = np.random.default_rng(1)
        buffer.rewards[:], buffer.values[:] = generator.normal(size=(2, 16, 3))
        buffer.episode_starts[:] = generator.random((16, 3)) < 0.2
        return buffer

    last, dones = torch.as_tensor(rng.normal(size=(3, 1)), dtype=torch.float32), np.array([True, False, False])
    theirs, ours = filled(), filled()
    theirs.compute_returns_and_advantage(last, dones)
    with kernels.gae_kernel():
        ours.compute_returns_and_advantage(last, dones)
    assert np.allclose(theirs.advantages, ours.advantages, atol=1e-5) and np.allclose(theirs.returns, ours.returns, atol=1e-5)


RING = textwrap.dedent(
    """\
    import numpy as np
    import torch
    class Replay:
        def __init__(self):
            self.states, self.actions = np.zeros((10, 2), np.float32), np.zeros(10, np.int64)
            self.position = self.size = 0

        def push(self, state, action):
            self.states[self.position] = state
            self.actions[self.position] = action
            self.position = (self.position + 1) % 10
            self.size = min(self.size + 1, 10)

    def collect(replay, states, actions):
        ends = 0
        for step in range(1):
            for i in range(len(actions)):
                replay.push(states[i].cpu().numpy(), actions[i].item())
                ends += 1
        return ends
    """
)


def test_pushes_in_one_go_fill_a_ring_as_before():
    text = apply(RING, batching.batched_pushes(Code(RING), 18))
    assert "replay.push_all(states, actions)" in text
    old, new = run_code(RING), run_code(text)
    first, second = old["Replay"](), new["Replay"]()
    for _ in range(5):
        states, actions = torch.rand(4, 2), torch.randint(0, 9, (4,))
        assert old["collect"](first, states, actions) == new["collect"](second, states, actions) == 4
        assert np.array_equal(first.states, second.states) and np.array_equal(first.actions, second.actions)
        assert (first.position, first.size) == (second.position, second.size)
    more = RING.replace("self.size = min(self.size + 1, 10)", "print(state)")
    assert batching.batched_pushes(Code(more), 18) == []


def test_rewrites_of_lines():
    text = "import torch\nimport numpy as np\nx = net(obs)\nwhile True:\n    time.sleep(0.1)\n    y = torch.FloatTensor(rows)\n"
    code = Code(text)
    assert "with torch.no_grad():\n    x = net(obs)" in apply(text, rewrite.no_grad(code, 3))
    plain = "import torch\na = net(obs).argmax(1).numpy()\nb = int(net(obs).argmax())\n"
    for line in (2, 3):
        assert "with torch.inference_mode():\n    " in apply(plain, rewrite.no_grad(Code(plain), line))
    assert "    pass\n" in apply(text, rewrite.left_out(code, 5))
    assert rewrite.left_out(code, 6) == []
    assert "y = torch.tensor(np.asarray(rows), dtype=torch.float32)" in apply(text, rewrite.stacked_tensor(code, 6))
    assert "set_default_validate_args(False)" in apply(text, rewrite.validate_off(code))
    assert rewrite.validate_off(Code("import os\n")) == []
    loop = "for _ in range(UPDATES):\n    learn()\n"
    assert apply(loop, rewrite.fewer_rounds(Code(loop), 2, 8)).startswith("for _ in range(max(1, (UPDATES) // 8)):")
    often = "if step % EVERY == 0 and ready:\n    evaluate()\n"
    assert "step % (EVERY * 10) == 0" in apply(often, rewrite.rarer_condition(Code(often), 2))
    kept = "losses.append(loss)\ntotal += loss\n"
    assert apply(kept, [*rewrite.detached(Code(kept), 1), *rewrite.detached(Code(kept), 2)]) == (
        "losses.append((loss).detach())\ntotal += (loss).detach()\n"
    )


def test_numbers_are_found_by_name_and_value_wherever_they_are():
    text = "BATCH_SIZE = N\nmodel = PPO(batch_size=N, n_steps=32)\nadd_argument('--minibatch', default=N)\na, BATCH = 1, N\n"
    before = text.replace("N\n", "32\n").replace("=N", "=32").replace("N)", "32)")
    found = apply(before, rewrite.number(Code(before), "batch", 32, lambda _: "256"))
    assert found == text.replace("N\n", "256\n").replace("=N", "=256").replace("N)", "256)")


def test_vector_classes_are_swapped_only_without_settings():
    text = "from gymnasium.vector import AsyncVectorEnv\nenvs = AsyncVectorEnv(makers)\n"
    names = {"AsyncVectorEnv": "SyncVectorEnv"}
    swapped = apply(text, rewrite.renamed(Code(text), names))
    assert swapped == "from gymnasium.vector import SyncVectorEnv\nenvs = SyncVectorEnv(makers)\n"
    assert rewrite.renamed(Code(text.replace("(makers)", "(makers, shared_memory=False)")), names) == []


GAE = textwrap.dedent(
    """\
    import torch
    import numpy as np
    def gae(rewards, values, dones, last):
        advantages = torch.zeros_like(rewards)
        running = 0.0
        for t in reversed(range(len(rewards))):
            following = last if t == len(rewards) - 1 else values[t + 1]
            alive = 1.0 - dones[t]
            delta = rewards[t] + 0.99 * following * alive - values[t]
            running = delta + 0.99 * 0.95 * alive * running
            advantages[t] = running
        return advantages + values, last
    """
)


def test_a_loop_over_numpys_views_computes_the_same():
    text = apply(GAE, rewrite.numpy_loop(Code(GAE), 9))
    assert ".numpy() if was else x" in text
    data = (torch.rand(20, 4), torch.rand(20, 4), (torch.rand(20, 4) < 0.1).float(), torch.rand(4))
    (old, last), (new, same) = run_code(GAE)["gae"](*data), run_code(text)["gae"](*data)
    assert torch.allclose(old, new, atol=1e-6) and isinstance(same, torch.Tensor) and torch.equal(last, same)


def test_a_function_of_numbers_is_compiled():
    pytest.importorskip("numba")
    text = "import numpy as np\ndef helper(x):\n    return x + 1\n"
    text += "def count(a):\n    n = 0\n    for x in a:\n        n += helper(x)\n    return n\n"
    compiled = apply(text, rewrite.jitted(Code(text), 7))
    scope = run_code(compiled)
    assert scope["count"](np.arange(5)) == 15 and hasattr(scope["count"], "py_func")
    method = "class A:\n    def count(self, a):\n        for x in a:\n            pass\n"
    assert rewrite.jitted(Code(method), 4) == []


@given(st.lists(st.text("ab \n", max_size=20), max_size=5), st.data())
def test_edits_touch_only_their_lines(parts, data):
    text = "\n".join(parts) + "\n"
    lines = text.splitlines()
    assert apply(text, []).splitlines() == lines
    if lines:
        place = data.draw(st.integers(1, len(lines)))
        changed = apply(text, [Edit(place, place, ("x", "y"))]).splitlines()
        assert changed == [*lines[: place - 1], "x", "y", *lines[place:]]


def test_edits_of_the_same_line_are_refused_and_differences_apply(tmp_path):
    with pytest.raises(Overlap):
        apply("a\nb\n", [Edit(1, 1, ("x",)), Edit(1, 1, ("y",))])
    before = "a\nb\nc\n"
    after = apply(before, [Edit(2, 1, ("new",)), Edit(2, 2, ("B",))])
    assert after == "a\nnew\nB\nc\n"
    (tmp_path / "f.py").write_text(before)
    subprocess.run(["patch", "f.py"], cwd=tmp_path, input=diff("f.py", before, after), text=True, check=True)
    assert (tmp_path / "f.py").read_text() == after


def test_a_change_tells_whether_the_script_came_across_it(tmp_path, monkeypatch):
    wanted = [("sleep-off", {}), ("foreach", {}), ("checkpoints-off", {}), ("infos-empty", {}), ("validate-off", {})]
    ((name, value),) = interventions.variable(wanted).items()
    monkeypatch.setenv(name, value)
    monkeypatch.setenv(TOOK, str(tmp_path))
    torch.distributions.Distribution.set_default_validate_args(True)
    with interventions.intervened():
        assert {path.name for path in tmp_path.iterdir()} == {"validate-off"}  # the rest has met nothing yet
        time.sleep(1)
        torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    assert {path.name for path in tmp_path.iterdir()} == {"validate-off", "sleep-off", "foreach"}


def test_interventions_add_up_and_survive_the_record(tmp_path):
    one = Intervention("one", (("threads", {"number": 1}),), ("--a", "1"), {"X": "1"}, {"f.py": (Edit(1, 1, ("x",)),)})
    two = Intervention("two", edits={"f.py": (Edit(3, 3, ("z",)),)}, learning=True)
    both = together([one, two])
    assert both.title == "one + two" and both.learning and patched(both, {"f.py": "a\nb\nc\n"}) == {"f.py": "x\nb\nz\n"}
    assert Intervention.from_facts(json.loads(json.dumps(both.facts()))) == both
    side = side_of(Side("s", "s", script="s.py"), both, {"f.py": "a\nb\nc\n"}, {"f.py": "/somewhere/f.py"}, tmp_path, "changed")
    wanted = json.loads(side.environment[interventions.VARIABLE])
    assert [name for name, _ in wanted] == ["threads", "source"] and side.arguments == ("--a", "1")
    assert interventions.VARIABLE not in side.facts()["environment"]


# -- knobs --


def test_flags_are_read_from_what_help_prints():
    import argparse

    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--minibatch-size", type=int, default=64, help="rows of a minibatch")
    parser.add_argument("--lr", type=float, default=3e-4, help="learning rate")
    found = {knob.flag: knob.default for knob in knobs.parse_help(parser.format_help())}
    assert found == {"--minibatch-size": "64", "--lr": "0.0003"}
    tyro = "│ --num-envs INT          how many (default: 8)  │\n│ --track, --no-track     (default: False) │"
    assert [(k.flag, k.default) for k in knobs.parse_help(tyro)] == [("--num-envs", "8"), ("--track", "False")]
    click = "Options:\n  --batch-size INTEGER  Rows.  [default: 32]\n  --help                Show this message.\n"
    assert [(k.flag, k.default) for k in knobs.parse_help(click)] == [("--batch-size", "32")]
    hydra = "train is powered by Hydra.\n== Config ==\nbatch_size: 32\nlr: 0.1\n\nPowered by Hydra (https://hydra.cc)\n"
    found = knobs.parse_help(hydra)
    assert knobs.find(found, "batch").set(64) == {"arguments": ("batch_size=64",)}


def test_flags_of_a_real_script(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=16)\n"
        "args = p.parse_args()\nraise SystemExit('it trained')\n"
    )
    (knob,) = knobs.knobs_of(str(script), False, {})
    assert (knob.flag, knob.default, knob.set(64)) == ("--batch-size", "16", {"arguments": ("--batch-size", "64")})
    plain = tmp_path / "plain.py"
    plain.write_text("raise SystemExit('it trained')\n")
    assert knobs.knobs_of(str(plain), False, {}) == []  # it would not understand --help


def test_the_fields_of_a_system_are_knobs():
    found = knobs.knobs_of_system({"num_envs": 256, "updates_per_step": 64.0, "turbo": False, "hidden": [128], "device": "cpu"})
    assert [(k.flag, k.default) for k in found] == [("--num-envs", "256"), ("--updates-per-step", "64")]
    assert Intervention("fewer", **knobs.find(found, "updates?_per").set(8)).config == {"updates_per_step": 8}


def test_a_knob_as_the_user_names_it():
    role, knob, values = knobs.parse("minibatch=--minibatch-size:64,128")
    assert (role, knob.flag, values) == ("minibatch", "--minibatch-size", ["64", "128"])
    with pytest.raises(UsageError, match="must look like"):
        knobs.parse("minibatch=64")

"""Interventions: each changes what it says, in the process that is told to; and a script's flags are found.

`test_undo.py` has what they leave behind (nothing), `test_rewrites.py` the changes to the user's code.
"""

import json
import os
import subprocess
import sys
import time

import gymnasium
import numpy as np
import pytest
import torch

from hotlap import interventions
from hotlap.core.errors import UsageError
from hotlap.interventions import APPLIED, knobs, making, source
from hotlap.interventions.code import Code
from hotlap.interventions.edit import Edit, Overlap
from hotlap.interventions.intervention import Intervention, RuntimeChange, patched, together
from hotlap.launch import help as launch_help
from hotlap.launch.help import help_of
from hotlap.record.codec import from_json, to_json
from hotlap.target.target import Script, Variant
from hotlap.target.variant import with_intervention


def test_switches_change_what_they_say(monkeypatch):
    torch.distributions.Distribution.set_default_validate_args(True)  # Stable-Baselines3, once imported, has it off
    with making("validate-off"):
        torch.distributions.Categorical(logits=torch.full((2,), float("nan")))  # would be refused
    with pytest.raises(ValueError, match="nan"):
        torch.distributions.Categorical(logits=torch.full((2,), float("nan")))
    with making("anomaly-off"):
        torch.autograd.set_detect_anomaly(True)
    assert not torch.is_anomaly_enabled()
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    with making("sleep-off"):
        time.sleep(5)
    time.sleep(7)
    assert slept == [7]
    with making("seed", offset=7):
        torch.manual_seed(1)
        moved = torch.rand(1)
    torch.manual_seed(8)
    assert torch.equal(moved, torch.rand(1))
    with making("threads", number=1):
        torch.set_num_threads(2)
        assert torch.get_num_threads() == 1


def test_optimizers_take_all_tensors_at_once_whatever_the_script_chose():
    parameter = [torch.zeros(1, requires_grad=True)]
    with making("foreach"):
        for options in ({}, {"fused": True}, {"foreach": False}):
            group = torch.optim.Adam(parameter, **options).param_groups[0]
            assert group["foreach"] is True and not group["fused"]
    with making("foreach", fused=True):
        assert torch.optim.SGD(parameter, foreach=True).param_groups[0]["fused"] is True


def test_no_doubles_are_made_and_dtypes_stay_what_they_are():
    array, double = np.linspace(0, 1, 4), torch.zeros(2, dtype=torch.float64)
    with making("float32"):
        made = [
            torch.nn.Linear(2, 2).double().weight,
            torch.nn.Linear(2, 2).to(torch.float64).weight,
            torch.nn.Linear(2, 2, dtype=torch.float64).weight,
            torch.from_numpy(array),
            torch.tensor(array),
            torch.as_tensor(array, dtype=torch.float64),
            torch.zeros(3, dtype=torch.double),
            torch.zeros_like(double),
            torch.rand(3, dtype=torch.float64),
            torch.ones(2).double(),
            torch.ones(2).to(dtype=torch.float64),
            torch.ones(2).to("cpu", torch.float64),
            torch.ones(2).type(torch.float64),
            torch.ones(2).type("torch.DoubleTensor"),
            torch.ones(2).new_zeros(2, dtype=torch.float64),
            torch.DoubleTensor([1.0]),
        ]
        torch.set_default_dtype(torch.float64)
        made.append(torch.zeros(2))
        assert torch.float64 is torch.double is double.dtype and torch.float64 is not torch.float32
        leaf = torch.tensor(array, requires_grad=True)
        assert leaf.is_leaf and leaf.requires_grad and leaf.dtype == torch.float32
        assert torch.tensor([1]).dtype == torch.int64 and torch.zeros(2, dtype=torch.float16).dtype == torch.float16
        assert np.allclose(torch.tensor(array).numpy(), array)
    assert {tensor.dtype for tensor in made} == {torch.float32}
    assert torch.from_numpy(array).dtype == torch.zeros(1, dtype=torch.float64).dtype == torch.float64


def test_a_default_of_doubles_comes_back():
    torch.set_default_dtype(torch.float64)
    try:
        with making("float32"):
            assert torch.zeros(1).dtype == torch.float32
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_processes_that_a_pinned_one_starts_may_use_all_cores():
    cores = os.sched_getaffinity(0)
    code = "import os; from hotlap.interventions import intervened\nwith intervened(): print(len(os.sched_getaffinity(0)))"
    with making("affinity", cores=[0]):
        assert len(os.sched_getaffinity(0)) == 1
        pid = os.fork()
        if pid == 0:
            os._exit(0 if os.sched_getaffinity(0) == cores else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        wanted = interventions.variable([RuntimeChange("affinity", {"cores": [0]})])
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **wanted}, capture_output=True, text=True)
        assert done.stdout.strip() == str(len(cores)), done.stderr
    assert os.sched_getaffinity(0) == cores


def test_layouts_swap_where_environments_run():
    make = [lambda: gymnasium.make("CartPole-v1")] * 2
    with making("one-process"):
        env = gymnasium.vector.AsyncVectorEnv(make, shared_memory=True)
        assert isinstance(env, gymnasium.vector.SyncVectorEnv)
    env.reset(seed=0)
    assert env.step(np.zeros(2, int))[0].shape == (2, 4)
    with making("workers"):
        env = gymnasium.vector.SyncVectorEnv(make)
        assert isinstance(env, gymnasium.vector.AsyncVectorEnv)
        env.reset(seed=0)
        assert env.step(np.zeros(2, int))[0].shape == (2, 4)
        env.close()


def test_wrappers_are_peeled_and_infos_emptied():
    with making("peel", names=["Doubling"]), making("infos-empty"):

        class Doubling(gymnasium.RewardWrapper):
            def reward(self, reward):
                return 2 * reward

        class Talks(gymnasium.Env):
            observation_space = action_space = gymnasium.spaces.Discrete(2)

            def step(self, action):
                return 0, 1.0, bool(action), False, {"much": "to say"}

        env = Doubling(Talks())
        assert env.unwrapped is env.env and env.observation_space is Talks.observation_space
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
    variables = interventions.variable(
        [RuntimeChange("sleep-off"), RuntimeChange("source", {"texts_in": str(tmp_path / "texts.json")})]
    )
    code = (
        "import runpy, sys; from hotlap.interventions import intervened\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        f"with intervened(): runpy.run_path({str(script)!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, timeout=50, check=True
    )
    assert done.stdout.splitlines() == ["changed new"]
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
    with making("gae-kernel"):
        ours.compute_returns_and_advantage(last, dones)
    assert np.allclose(theirs.advantages, ours.advantages, atol=1e-5) and np.allclose(theirs.returns, ours.returns, atol=1e-5)


def test_a_change_tells_whether_it_was_applied(tmp_path, monkeypatch):
    wanted = [
        RuntimeChange(name) for name in ("sleep-off", "foreach", "checkpoints-off", "infos-empty", "validate-off", "float32")
    ]
    ((name, value),) = interventions.variable(wanted).items()
    monkeypatch.setenv(name, value)
    monkeypatch.setenv(APPLIED, str(tmp_path))
    torch.distributions.Distribution.set_default_validate_args(True)
    with interventions.intervened():
        assert {path.name for path in tmp_path.iterdir()} == {"validate-off"}  # nothing else has had an effect yet
        time.sleep(1)
        torch.optim.Adam([torch.zeros(1, requires_grad=True)])  # a tensor is made, but no double
    assert {path.name for path in tmp_path.iterdir()} == {"validate-off", "sleep-off", "foreach"}


def test_interventions_add_up_and_survive_the_record(tmp_path):
    threads = RuntimeChange("threads", {"number": 1})
    one = Intervention("one", (threads,), ("--a", "1"), {"X": "1"}, {"f.py": (Edit(1, 1, ("x",)),)})
    two = Intervention("two", edits={"f.py": (Edit(3, 3, ("z",)),)}, changes_learning=True)
    both = together([one, two])
    assert both.title == "one + two" and both.changes_learning
    assert patched(both, {"f.py": "a\nb\nc\n"}) == {"f.py": "x\nb\nz\n"}
    assert from_json(Intervention, json.loads(json.dumps(to_json(both))), "here") == both
    variant = with_intervention(
        Variant("s", Script("s.py")), both, {"f.py": "a\nb\nc\n"}, {"f.py": "/somewhere/f.py"}, tmp_path, "changed"
    )
    wanted = json.loads(variant.environment[interventions.VARIABLE])
    assert [name for name, _ in wanted] == ["threads", "source"] and variant.target.arguments == ("--a", "1")
    assert interventions.VARIABLE not in variant.to_record()["environment"]


def test_edits_that_do_not_parse_together_are_refused():
    broken = Intervention("broken", edits={"f.py": (Edit(1, 1, ("if a:",)),)})
    with pytest.raises(Overlap, match="do not fit together"):
        patched(broken, {"f.py": "a\nb\n"})


def test_what_runs_in_the_users_process_needs_the_standard_library_only():
    others = ("gymnasium", "libcst", "numpy", "psutil", "scipy", "torch")
    code = f"import sys; import hotlap.interventions; print([name for name in {others} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- knobs --


def test_flags_are_read_from_what_help_prints():
    import argparse

    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--minibatch-size", type=int, default=64, help="rows of a minibatch")
    parser.add_argument("--lr", type=float, default=3e-4, help="learning rate")
    defaults = {knob.flag: knob.default for knob in knobs.parse_help(parser.format_help())}
    assert defaults == {"--minibatch-size": "64", "--lr": "0.0003"}
    tyro = "│ --num-envs INT          how many (default: 8)  │\n│ --track, --no-track     (default: False) │"
    assert [(k.flag, k.default) for k in knobs.parse_help(tyro)] == [("--num-envs", "8"), ("--track", "False")]
    click = "Options:\n  --batch-size INTEGER  Rows.  [default: 32]\n  --help                Show this message.\n"
    assert [(k.flag, k.default) for k in knobs.parse_help(click)] == [("--batch-size", "32")]
    hydra = "train is powered by Hydra.\n== Config ==\nbatch_size: 32\nlr: 0.1\n\nPowered by Hydra (https://hydra.cc)\n"
    parsed = knobs.parse_help(hydra)
    assert knobs.find(parsed, "batch").set(64) == {"arguments": ("batch_size=64",)}


def test_flags_of_a_real_script(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch-size', type=int, default=16)\n"
        "args = p.parse_args()\nraise SystemExit('it trained')\n"
    )
    shown = help_of(Script(str(script)))
    (knob,) = knobs.knobs_of({"train.py": Code(script.read_text())}, lambda: shown)
    assert (knob.flag, knob.default, knob.set(64)) == ("--batch-size", "16", {"arguments": ("--batch-size", "64")})
    plain = Code("raise SystemExit('it trained')\n")
    assert knobs.knobs_of({"plain.py": plain}, pytest.fail) == []  # it would not understand --help


def test_help_is_bounded_in_time_and_output(tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    flag = "import argparse\nargparse.ArgumentParser().add_argument('--batch-size', default=16)\n"
    script.write_text(flag + "while True: print('--more-and-more  (default: 1)')\n")
    assert help_of(Script(str(script))) == ""
    assert [k.flag for k in knobs.knobs_of({"train.py": Code(flag)}, str)] == ["--batch-size"]  # as the code has it
    monkeypatch.setattr(launch_help, "PATIENCE", 0.5)
    script.write_text("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])\n")
    assert help_of(Script(str(script))) == ""


def test_the_fields_of_a_system_are_knobs():
    fields = knobs.knobs_of_system(
        {"num_envs": 256, "updates_per_step": 64.0, "turbo": False, "hidden": [128], "device": "cpu"}
    )
    assert [(k.flag, k.default) for k in fields] == [("--num-envs", "256"), ("--updates-per-step", "64")]
    assert Intervention("fewer", **knobs.find(fields, "updates?_per").set(8)).config == {"updates_per_step": 8}


def test_a_knob_as_the_user_names_it():
    role, knob, values = knobs.parse("minibatch=--minibatch-size:64,128")
    assert (role, knob.flag, values) == ("minibatch", "--minibatch-size", ["64", "128"])
    with pytest.raises(UsageError, match="must look like"):
        knobs.parse("minibatch=64")

"""hotlap investigate and hotlap diagnose through the real command line, on small scripts whose cause is known."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from hotlap.interventions.intervention import Intervention, together
from hotlap.investigate import conduct, judgement, opening, plan
from hotlap.investigate.iterations import shortened
from hotlap.record.comparison import Work, WorkPair
from hotlap.record.finding import Finding, Projection
from hotlap.record.hypothesis import Hypothesis
from hotlap.record.investigation import Settings
from hotlap.target import words

SCRIPT = """\
import time
import gymnasium, torch


class Arm(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (4,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observation_space.sample() * 0, {}

    def step(self, action):
        time.sleep(0.002)
        self.t += 1
        return self.observation_space.sample() * 0, float(action), self.t >= 50, False, {}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    env = Arm()
    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    obs, _ = env.reset(seed=0)
    for step in range(10_000_000):
        with torch.no_grad():
            action = int(torch.multinomial(net(torch.as_tensor(obs)).softmax(0), 1))
        obs, reward, done, _, _ = env.step(action)
        if step % 8 == 0:
            loss = (net(torch.as_tensor(obs)) - reward).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if done:
            obs, _ = env.reset()
    SAVE


main()
"""


def hotlap(folder, *arguments, code=0):
    done = subprocess.run(
        [sys.executable, "-c", "from hotlap.cli import main; main()", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert done.returncode == code, done.stderr + done.stdout
    return done


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT.replace("SAVE", "pass"))
    return tmp_path


def left_behind(folder):
    running = []
    for process in psutil.process_iter():
        try:
            if str(folder) in " ".join(process.cmdline()) or (process.pid != os.getpid() and process.cwd() == str(folder)):
                running.append(process.pid)
        except psutil.Error:
            continue
    return running


@pytest.mark.truth
def test_from_the_path_to_a_proven_patch(folder):
    done = hotlap(folder, "investigate", "train.py", "--budget", "30s", "--seeds", "1", "--apply", "--json")
    doc = json.loads(done.stdout)
    assert doc["schema"] == "hotlap.investigate/2" and doc["status"] == "done"
    first = doc["hypotheses"][0]
    assert (first["cause"], first["verdict"], first["where"]) == ("env-realtime-throttle", "confirmed", "train.py:15")
    assert first["measured"]["ratio"] > 1 and first["accepted"]
    assert doc["speedup"]["ratio"] > 1
    assert doc["learning"]["losses"]["verdict"] == "same losses"
    assert (folder / "train.py").read_text() == SCRIPT.replace("SAVE", "pass")  # --apply writes a patch, and no more
    assert sorted(path.name for path in folder.iterdir()) == [".hotlap", "train.py"]
    assert left_behind(folder) == []
    (patch,) = doc["written"]
    subprocess.run(["patch", "train.py", patch], cwd=folder, check=True, capture_output=True)
    assert "time.sleep(0.002)" not in (folder / "train.py").read_text()
    compile((folder / "train.py").read_text(), "train.py", "exec")
    text = hotlap(folder, "report", doc["run"]).stdout
    assert "It is slow because the script sleeps" in text and "Where the time goes" in text
    assert "hotlap report" in hotlap(folder, "report", doc["run"], "--format", "md").stdout
    hotlap(folder, "report", doc["run"], "--format", "html")
    assert str(folder) not in (Path(folder) / doc["run"] / "run.json").read_text()


@pytest.mark.exact
def test_the_plan_alone_and_the_findings_alone(folder):
    done = hotlap(folder, "investigate", "train.py", "--dry-run", "--budget", "3m", "--json")
    doc = json.loads(done.stdout)
    assert doc["hypotheses"][0]["verdict"] == "planned" and doc["accepted"] == [] and doc["speedup"] is None
    assert not (folder / doc["run"] / "experiments").exists()
    profile = f"{doc['run']}/profile-1"
    diagnosis = json.loads(hotlap(folder, "diagnose", profile, "--json").stdout)
    assert diagnosis["findings"][0]["cause"] == "env-realtime-throttle"
    assert "env-realtime-throttle" in hotlap(folder, "diagnose", profile).stdout
    assert "diagnose a profile" in hotlap(folder, "diagnose", doc["run"], code=2).stderr


def test_the_plan_for_a_system(folder):
    settings = ["--preset", "seed", "--num-envs", "16", "--size", "6", "--iteration-steps", "4"]
    knob = ["--knob", "net=--hidden:64x64"]
    done = hotlap(folder, "investigate", "snake", "--dry-run", "--budget", "16s", "--json", *knob, "--", *settings)
    header = json.loads((folder / json.loads(done.stdout)["run"] / "run.json").read_text())
    planned = {h["cause"]: h["intervention"] for h in header["hypotheses"] if h["intervention"]}
    assert planned["utd-high"]["config"] == {"updates_per_step": 16}  # one per environment step
    assert planned["utd-high"]["changes_learning"]
    assert planned["knob net"]["config"] == {"hidden": [64, 64]}
    assert planned["claim: updates_per_step 1"]["config"] == {"updates_per_step": 1.0}
    assert header["hypotheses"][0]["alone"]  # what the system's document claims comes first


def test_a_finding_that_a_document_claims_too_is_one_hypothesis():
    command = "petri --preset seed"
    target = words.variant(command).target
    same = Hypothesis(0, "env-python-loop", 1, intervention=Intervention("turbo", config={"turbo": True}))
    other = Hypothesis(0, "tiny-minibatch", 1, intervention=Intervention("larger", config={"batch_size": 512}))
    planned = plan.with_claims([other, same], command, target)
    assert [(h.cause, h.alone) for h in planned] == [
        ("env-python-loop", True),
        ("claim: batch_size 256", True),
        ("claim: num_envs 8", True),
        ("claim: num_envs 64", True),
        ("tiny-minibatch", False),
    ]
    assert len(plan.with_claims([], f"{command} --turbo", target)) == 3  # it is on already
    hearts = plan.with_claims([], "hearts --preset seed", words.variant("hearts --preset seed").target)
    option = next(h.intervention for h in hearts if h.intervention and h.intervention.title == "preset seed-optimized")
    assert option.config == {"num_envs": 8, "workers": 4, "horizon": 750, "epochs": 6, "batch_size": 64, "net": "attn-64x1"}


def test_of_changes_to_one_field_the_fastest_is_accepted(tmp_path):
    variant = words.variant("petri --preset seed")
    run = opening.begin(variant, "petri --preset seed", Settings(), tmp_path / "run")
    settings = [("num_envs", 8, 1.5), ("num_envs", 64, 2.5), ("num_envs", 2, 1.2), ("turbo", True, 1.4), ("num_envs", 128, 1.1)]
    hypotheses = [
        Hypothesis(
            i, "claim", 1, None, None, Intervention(name, config={name: value}), measured=gain, accepted=True, alone=i < 4
        )
        for i, (name, value, gain) in enumerate(settings)
    ]
    run.update(investigation=replace(run.header.investigation, hypotheses=tuple(hypotheses)))
    investigation = conduct.Investigation(run, variant, Settings())
    investigation._keep_fastest()
    assert [h.accepted for h in investigation.state.hypotheses] == [False, True, False, True, True]
    assert together(investigation.accepted).config == {"num_envs": 128, "turbo": True}  # the last one was tested on top


@pytest.mark.parametrize(
    ("wanted", "before", "after", "fault"),
    [
        (1 / 8, 4.0, 0.5, None),
        (1 / 8, 4.0, 0.55, None),
        (1 / 8, 4.0, 4.0, "1 times as many updates per environment step, where 0.12 times were meant"),
        (1 / 8, 4.0, None, "it made no updates"),
        (None, 4.0, 0.0, "it made no updates"),
        (None, 4.0, 1.0, None),  # a larger minibatch
        (1 / 8, None, None, None),  # nothing was counted in the first place
    ],
)
def test_an_experiment_must_do_what_its_title_says(wanted, before, after, fault):
    tested = Intervention("8 times fewer updates", changes_learning=True, updates=wanted)
    work = WorkPair(Work(updates_per_env_step=before), Work(updates_per_env_step=after))
    assert judgement.fault_of(tested, work) == fault


def test_long_iterations_are_shortened_with_the_same_work_per_step():
    hearts, petri, snake = (words.variant(f"{name} --preset seed").target for name in ("hearts", "petri", "snake"))
    assert shortened(hearts, hearts).config == {**hearts.config, "horizon": 256}  # 512 steps, 160 updates
    assert shortened(petri, petri).config["horizon"] == 512
    assert shortened(snake, snake) is snake
    cage2 = words.variant("cage2 --preset seed-200").target  # one minibatch is all that was collected
    assert shortened(cage2, cage2).config == {**cage2.config, "horizon": 10, "batch_size": 2_000}
    more = replace(cage2, config={**cage2.config, "num_envs": 500})
    assert shortened(more, cage2).config == {**more.config, "horizon": 10, "batch_size": 2_048}
    memory = replace(hearts, config={**hearts.config, "memory": "lstm"})
    assert shortened(memory, memory) is memory


@pytest.mark.exact
def test_a_script_that_writes_elsewhere_is_profiled_and_left_alone(folder):
    save = "import urllib.request\n    urllib.request.urlopen('http://collector.example/', data=b'done')"  # never reached
    (folder / "train.py").write_text(SCRIPT.replace("SAVE", save))
    doc = json.loads(hotlap(folder, "investigate", "train.py", "--budget", "3m", "--json").stdout)
    assert "other machines (urllib.request.urlopen)" in doc["unsafe"][0]
    assert all(h["verdict"] in ("planned", "no fault", "inconclusive") for h in doc["hypotheses"])
    assert not (folder / doc["run"] / "experiments").exists()
    assert "--rerun" in hotlap(folder, "report", doc["run"]).stdout


@pytest.mark.exact
def test_interrupted_and_resumed(folder):
    command = [sys.executable, "-c", "from hotlap.cli import main; main()", "investigate", "train.py", "--budget", "5m"]
    process = subprocess.Popen(  # a budget that a busy machine does not spend on the first profile
        [*command, "--seeds", "1", "--out", "study"], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    for line in process.stderr:
        if "experiment 1" in line:
            break
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    process.stderr.close()
    assert left_behind(folder) == []
    header = json.loads((folder / "study" / "run.json").read_text())
    assert header["status"] == "interrupted" and header["hypotheses"][0]["verdict"] is None
    budget = f"{header['spent'] + 60:.0f}s"  # counted from the start
    doc = json.loads(hotlap(folder, "investigate", "--resume", "study", "--budget", budget, "--json").stdout)
    assert doc["status"] == "done" and doc["hypotheses"][0]["verdict"] == "confirmed"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["investigate"], "name what to investigate"),
        (["investigate", "missing.py"], "no script"),
        (["investigate", "train.py", "--knob", "x"], "must look like"),
        (["investigate", "train.py", "--budget", "soon"], "soon"),
        (["investigate", "snake", "--knob", "x=--batch:1"], "has no knob"),
        (["investigate", "--resume", "nothing"], "no run"),
        (["diagnose", "nothing"], "no run"),
    ],
)
def test_wrong_input_is_one_clear_line(folder, arguments, message):
    done = hotlap(folder, *arguments, code=2)
    assert message in done.stderr and "Traceback" not in done.stderr


def test_a_script_that_fails_says_so(folder):
    (folder / "train.py").write_text("import gymnasium\nraise RuntimeError('no such map')\n")
    done = hotlap(folder, "investigate", "train.py", code=1)
    assert "no such map" in done.stdout


@pytest.mark.parametrize(("gain", "shrunk", "now"), [(1.25, 2.0, 1 / 0.6), (2.45, 2.36, 2.45), (1.0, 3.0, 1.0)])
def test_what_is_left_to_save_is_a_larger_share_of_less_time(gain, shrunk, now):
    """Of another part of training; what shortened the same part has left no more of it."""
    save = Finding("c", "t", "update/optimizer", (), Projection(gain, (gain, gain)), False, "fix")
    tested = Hypothesis(2, "c", 1, finding=save, projected=save.projected)
    for stage, expected in (("collect/env_step", now), ("update/loss", gain)):
        other = replace(save, stage=stage)
        accepted = Hypothesis(1, "d", 1, finding=other, measured=shrunk, accepted=True)
        assert plan.projected_now(tested, [accepted]).speedup == pytest.approx(expected)
    assert plan._with_less_time(gain, shrunk) == pytest.approx(now)

"""`hotlap profile train.py` on real scripts: plain torch and gymnasium, and Stable-Baselines3; and on bad ones."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from hotlap.record.run import load

TRUTH = '''
"""Every stage burns a known time; the script adds up what it really burnt, by its own clock."""
import atexit, json, os, sys, time
origin = json.loads(os.environ.get("HOTLAP_PROBE", '{"origin": 0}'))["origin"] * 1e-9
import gymnasium, numpy as np, torch
burnt, acting = [], "collect/act"
def burn(stage, seconds):
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds: pass
    burnt.append((stage, begin, time.perf_counter() - begin))
class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,)); action_space = gymnasium.spaces.Discrete(2); t = 0
    def reset(self, seed=None, options=None): return np.zeros(3, np.float32), {}
    def step(self, action):
        burn("collect/env_step", 0.004); self.t += 1
        return np.zeros(3, np.float32), 0.0, self.t % 10 == 0, False, {}
class Net(torch.nn.Module):
    def __init__(self): super().__init__(); self.layer = torch.nn.Linear(3, 2)
    def forward(self, x): burn("update/loss" if torch.is_grad_enabled() else acting, 0.002); return self.layer(x)
env, net = gymnasium.wrappers.TimeLimit(Env(), 1000), Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
obs, _ = env.reset()
total = 0
for iteration in range(int(sys.argv[1])):
    for _ in range(10):
        with torch.no_grad(): action = net(torch.from_numpy(obs)[None]).argmax().item()
        burn("collect/act", 0.001)
        obs, *_ = env.step(action); total += 1
        burn("collect/store", 0.002)
    acting = "advantage"
    with torch.no_grad(): net(torch.from_numpy(obs)[None])
    burn("advantage", 0.006)
    acting = "collect/act"
    for _ in range(5):
        burn("sample", 0.003) if _ else None
        loss = net(torch.zeros(16, 3)).sum()
        burn("update/loss", 0.003)
        optimizer.zero_grad(); loss.backward()
        burn("update/optimizer", 0.002)
        optimizer.step()
json.dump({"burnt": burnt, "total": total, "argv": sys.argv, "name": __name__, "origin": origin}, open("truth.json", "w"))
print("finished", total)
'''

NATIVE = """
import hashlib, json, os, sys, time, gymnasium, numpy as np, torch
spent = []
def spend(stage, seconds, how):
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        time.sleep(0.001) if how == "sleep" else hashlib.sha256(DATA).digest()  # the latter without Python's lock
    spent.append((stage, begin, time.perf_counter() - begin))
DATA = bytes(100_000)
class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,)); action_space = gymnasium.spaces.Discrete(2)
    def reset(self, seed=None, options=None): return np.zeros(3, np.float32), {}
    def step(self, action):
        spend("collect/env_step", 0.012, "sleep")
        return np.zeros(3, np.float32), 0.0, False, False, {}
class Net(torch.nn.Linear):
    def forward(self, x): spend("update/loss" if x.shape[0] > 1 else "collect/act", 0.006, "native"); return super().forward(x)
env, net = Env(), Net(3, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
obs, _ = env.reset()
for iteration in range(40):
    for _ in range(5):
        with torch.no_grad(): net(torch.from_numpy(obs)[None])
        obs, *_ = env.step(0)
    loss = net(torch.zeros(16, 3)).sum()
    loss.backward(); optimizer.step()
origin = json.loads(os.environ["HOTLAP_PROBE"])["origin"] * 1e-9
json.dump({"burnt": spent, "origin": origin}, open("truth.json", "w"))
"""

WORKERS = """
import json, multiprocessing, sys, time, gymnasium, numpy as np, torch
from gymnasium.vector import AsyncVectorEnv
class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,)); action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, seconds): self.seconds = seconds
    def reset(self, seed=None, options=None): return np.zeros(3, np.float32), {}
    def step(self, action):
        time.sleep(self.seconds)
        return np.zeros(3, np.float32), 0.0, False, False, {}
if __name__ == "__main__":
    envs = AsyncVectorEnv([lambda: Env(0.004), lambda: Env(0.004), lambda: Env(0.012)], context=sys.argv[1])
    net = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    obs, _ = envs.reset()
    for iteration in range(8):
        for _ in range(20):
            with torch.no_grad(): net(torch.from_numpy(obs))
            time.sleep(0.004)
            obs, *_ = envs.step([0, 0, 0])
        net(torch.zeros(16, 3)).sum().backward(); optimizer.step()
    envs.close()
"""

SB3 = """
import json, sys, torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
torch.set_num_threads(1)
if sys.argv[1] == "ppo":
    envs = make_vec_env("CartPole-v1", 4, seed=0)
    model = PPO("MlpPolicy", envs, n_steps=64, batch_size=64, n_epochs=2, seed=0, device="cpu")
else:
    model = DQN("MlpPolicy", "CartPole-v1", learning_starts=100, seed=0, device="cpu")
model.learn(int(sys.argv[2]))
weights = [p.double().sum().item() for p in model.policy.parameters()]
json.dump({"steps": model.num_timesteps, "weights": weights}, open("result.json", "w"))
"""


def run(folder, *arguments, code=0):
    place = arguments.index("--") if "--" in arguments else len(arguments)
    quick = () if "--what-if" in arguments else ("--no-what-if",)  # the curves have tests of their own
    command = [sys.executable, "-m", "hotlap", "profile", *arguments[:place], *quick, *arguments[place:]]
    environment = {**os.environ, "COLUMNS": "100"}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False, timeout=180)
    result.stdout, result.stderr = (text.decode(errors="replace") for text in (result.stdout, result.stderr))
    assert result.returncode == code, result.stderr + result.stdout
    return result


def write(folder, text, name="train.py"):
    (folder / name).write_text(text)
    return name


def share_errors(folder, doc, truth):
    """In the windows that were measured, by the script's own clock and by ours: how far the shares of stages are apart."""
    _, windows = load(folder / doc["run"]).steady()
    wall = sum(window.wall for window in windows) * 1e-9
    burnt = {}
    for stage, begin, seconds in truth["burnt"]:
        at = (begin - truth["origin"]) * 1e9
        if any(window.start <= at < window.start + window.wall for window in windows):
            burnt[stage] = burnt.get(stage, 0) + seconds
    assert len(burnt) >= 3
    return {stage: abs(doc["stages"][stage]["share"] - seconds / wall) for stage, seconds in burnt.items()}


def profile_with_truth(folder, text, *arguments):
    flags = ["--iterations", "1000", "--warmup", "0", "--json"]
    doc = json.loads(run(folder, write(folder, text), *flags, *arguments).stdout)
    return doc, json.loads((folder / "truth.json").read_text())


def test_a_script_runs_as_it_would_and_is_counted(tmp_path):
    arguments = ("--iterations", "1000", "--warmup", "0", "--what-if", "--json", "--", "30")  # its updates are not the script's
    result = run(tmp_path, write(tmp_path, TRUTH), *arguments)
    doc = json.loads(result.stdout)
    truth = json.loads((tmp_path / "truth.json").read_text())
    assert "finished 300" in result.stderr  # with --json the script's own output is moved aside
    assert truth["argv"] == ["train.py", "30"]
    assert truth["name"] == "__main__"
    assert doc["counts"] == {"env_steps": truth["total"], "updates": 150, "episodes": 30}
    assert sum(row["share"] for row in doc["stages"].values()) == pytest.approx(1, abs=0.005)
    assert doc["counters"]["episode_length"] == 10
    assert doc["hot_lines"] and doc["containment"] and doc["scratch"] == "in-place"


@pytest.mark.truth
@pytest.mark.parametrize(("text", "line", "native"), [(TRUTH, "train.py:9", False), (NATIVE, "train.py:7", True)])
def test_shares_equal_what_the_script_burnt(text, line, native, tmp_path):
    """In the median of three profiles, every stage within 2 points, and the planted line the hottest."""
    errors, hottest = [], []
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        doc, truth = profile_with_truth(folder, text, *(["--", "30"] if text is TRUTH else []))
        errors.append(share_errors(folder, doc, truth))
        hottest.append((doc["hot_lines"][0]["where"], doc["hot_lines"][0]["native"]))
        assert doc["unattributed"] < 0.05
    for stage in errors[0]:
        assert sorted(error[stage] for error in errors)[1] < 0.02, (stage, errors)
    assert sorted(hottest)[1] == (line, native)


@pytest.mark.parametrize("context", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.exact)])
def test_worker_processes(context, tmp_path):
    flags = ["--iterations", "1000", "--warmup", "0", "--json", "--", context]
    doc = json.loads(run(tmp_path, write(tmp_path, WORKERS), *flags).stdout)
    assert doc["counts"]["env_steps"] == 3 * 8 * 20
    assert doc["stages"]["collect/wait"]["share"] > 0
    workers = doc["workers"]
    assert workers["count"] == 3
    for row in workers["each"].values():
        assert row["env_steps"] > 0 and row["step_median"] > 0.003  # it sleeps for 4 ms at least
        assert row["env_share"] + row["wait_share"] + row["other_share"] + row["act_share"] == pytest.approx(1, abs=1e-6)


@pytest.mark.truth
def test_times_of_worker_processes(tmp_path):
    """Two workers take 4 ms a step, one takes 12; between steps the script takes 4."""
    flags = ["--iterations", "1000", "--warmup", "0", "--json", "--", "fork"]
    doc = json.loads(run(tmp_path, write(tmp_path, WORKERS), *flags).stdout)
    assert doc["stages"]["collect/wait"]["share"] > 0.5  # 12 of 16 ms
    workers = doc["workers"]
    assert workers["slowest"]["step_median"] == pytest.approx(0.012, rel=0.3)
    assert workers["median"]["step_median"] == pytest.approx(0.004, rel=0.5)
    for row in workers["each"].values():
        assert row["env_share"] == pytest.approx(row["step_median"] / 0.0165, abs=0.15)
        assert row["cpu_share"] < 0.5


def test_what_looks_strange_is_not_the_scripts_trouble(tmp_path):
    text = """
import sys, gymnasium, numpy as np, torch
class Tee:
    def __init__(self, stream): self.stream = stream
    def write(self, text): return self.stream.write(text)
    def flush(self): self.stream.flush()
sys.stdout = Tee(sys.stdout)
class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,)); action_space = gymnasium.spaces.Discrete(2)
    def reset(self, seed=None, options=None): return np.zeros(3), {}
    def step(self, action): return np.zeros(3), 0.0, np.bool_(False), False, {}
class Plain(gymnasium.Wrapper): pass
class Doubling(gymnasium.Wrapper):
    def step(self, action): obs, reward, *rest = super().step(action); return obs, 2.0, *rest
class Both(Plain, Doubling): pass
env = Both(gymnasium.wrappers.TimeLimit(Env(), 3)); env.reset()
for _ in range(3): _, reward, _, truncated, _ = env.step(0)
assert truncated and reward == 2.0
class Odd(torch.optim.SGD):
    def step(self, closure=None): raise MemoryError
net = torch.nn.Linear(3, 2)
optimizer = Odd(net.parameters(), 0.1)
for _ in range(2):
    try: optimizer.step()
    except MemoryError: pass
print("all is well")
"""
    assert "all is well" in run(tmp_path, write(tmp_path, text)).stdout


def test_a_class_of_the_script_may_travel_to_workers(tmp_path):
    """Hooks must not make a class impossible to pickle, nor change what a copy does."""
    text = """
import copy, pickle, sys, cloudpickle, gymnasium, numpy as np
class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,)); action_space = gymnasium.spaces.Discrete(2); t = 0
    def reset(self, seed=None, options=None): return np.zeros(3), {}
    def step(self, action): self.t += 1; return np.zeros(3), 0.0, False, False, {}
wrapped = gymnasium.wrappers.TimeLimit(gymnasium.wrappers.OrderEnforcing(Env()), 10)
wrapped.reset(); wrapped.step(0)
through_pickle = lambda env: pickle.loads(pickle.dumps(env))
through_cloudpickle = lambda env: cloudpickle.loads(cloudpickle.dumps(env))
for clone in (copy.copy, copy.deepcopy, through_pickle, through_cloudpickle):
    env = clone(wrapped.unwrapped)
    before = wrapped.unwrapped.t
    env.step(0)
    assert (env.t, wrapped.unwrapped.t) == (before + 1, before), clone
cloudpickle.loads(cloudpickle.dumps(lambda: Env()))().step(0)
print("copies are right")
"""
    assert "copies are right" in run(tmp_path, write(tmp_path, text)).stdout


@pytest.mark.parametrize(
    ("algorithm", "steps", "present"),
    [
        (
            "ppo",
            4_096,
            {"collect/act", "collect/env_step", "collect/store", "advantage", "sample", "update/loss", "update/backward"},
        ),
        ("dqn", 1_500, {"collect/env_step", "collect/store", "sample", "update/loss", "update/backward", "update/optimizer"}),
    ],
)
def test_stable_baselines3_unchanged(algorithm, steps, present, tmp_path):
    pytest.importorskip("stable_baselines3")
    script = write(tmp_path, SB3)
    flags = ["--iterations", "1000", "--warmup", "0", "--json", "--", algorithm, str(steps)]
    doc = json.loads(run(tmp_path, script, *flags).stdout)
    probed = json.loads((tmp_path / "result.json").read_text())
    subprocess.run([sys.executable, script, algorithm, str(steps)], cwd=tmp_path, check=True, capture_output=True)
    bare = json.loads((tmp_path / "result.json").read_text())
    assert probed == bare  # the probe changes nothing
    assert doc["counts"]["env_steps"] == bare["steps"]
    assert present <= doc["stages"].keys()
    assert doc["unattributed"] < 0.05


def test_a_script_is_stopped_when_enough_was_measured(tmp_path):
    guard = "import atexit, pathlib\natexit.register(lambda: pathlib.Path('ended').write_text('yes'))\n"
    result = run(tmp_path, write(tmp_path, guard + TRUTH), "--iterations", "3", "--", "100000")
    assert "Where the time went" in result.stdout
    assert (tmp_path / "ended").read_text() == "yes"  # its clean-up ran
    assert not (tmp_path / "truth.json").exists()


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("import helper\nraise RuntimeError(helper.WORD)", 1, "RuntimeError: from beside the script"),
        ("import sys\nsys.exit(7)", 7, "nothing to show"),
        ("import sys\nsys.exit('went wrong')", 1, "went wrong"),
        ("print('hello')", 0, "hello"),
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
            1,
            "killed by SIGKILL (by somebody, or by the system for want",
        ),
        ("import os\nos.abort()", 1, "hotlap: the script was killed by SIGABRT"),
        ("import ctypes\nctypes.string_at(0)", 1, "hotlap: the script was killed by SIGSEGV"),
        ("import os\nos._exit(3)", 3, "hotlap: the script ended with exit code 3"),
        ("import os, sys\nsys.stdout.close()\nos.close(1)", 0, "found no RL"),
        (
            "import atexit, os\natexit.register(os._exit, 5)",
            5,
            "was through (exit code 0), then its process ended with exit code 5",
        ),
        (
            "import atexit, os\natexit.register(os.abort)",
            1,
            "was through (exit code 0), then its process was killed by SIGABRT",
        ),
        ("import sys\nsys.exit(-1)", 255, "nothing to show"),
        ("this is no python", 1, "SyntaxError"),
        ("raise KeyboardInterrupt", 130, "The run was interrupted"),
        (
            "import os\nif not os.fork(): raise SystemExit(3)\nprint('child ended with', os.wait()[1] >> 8)",
            0,
            "child ended with 3",
        ),
        ("import sys\nsys.argv = ['other', 'words']\nprint(sys.argv)", 0, "['other', 'words']"),
        ("if __name__ == '__main__': print('guarded')", 0, "guarded"),
        ("import sys\nsys.stdout.buffer.write(bytes([255, 0, 10]))\nprint('after')", 0, "after"),
    ],
)
def test_scripts_that_end_badly_or_hold_no_rl(text, code, message, tmp_path):
    write(tmp_path, "WORD = 'from beside the script'", "helper.py")
    result = run(tmp_path, write(tmp_path, text), code=code)
    assert message in result.stdout + result.stderr
    assert "hotlap/" not in result.stderr  # no frames of ours in the script's traceback
    crashed = "failed" in result.stdout.splitlines()[-1] or "The run " in result.stdout
    assert ("No environment step and no update was seen" in result.stdout) != crashed


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 1)])
def test_a_signal_to_hotlap_alone_ends_the_script_too(number, code, tmp_path):
    script = write(tmp_path, "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(100)")
    command = [sys.executable, "-m", "hotlap", "profile", script, "--out", "run"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, start_new_session=True) as process:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.05)
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == code
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
    text = (tmp_path / "run" / "run.json").read_text()
    assert '"status": "interrupted"' in text or '"status": "failed"' in text
    assert str(tmp_path) not in text


def test_modules_and_missing_scripts(tmp_path):
    write(tmp_path, "import sys\nprint('ran', sys.argv[1:], __name__)", "job.py")
    assert "ran ['--x', '1'] __main__" in run(tmp_path, "-m", "job", "--", "--x", "1").stdout
    result = run(tmp_path, "nowhere.py", code=2)
    assert result.stderr.strip() == "hotlap: no script 'nowhere.py'"
    result = run(tmp_path, "job.py", "--modules", "--detailed", code=2)
    assert result.stderr.strip() == "hotlap: --modules, --detailed: only for systems, not for scripts"


def test_a_framework_version_that_the_adapter_does_not_know(tmp_path):
    """The generic hooks measure it all the same, and the report says so."""
    pretend = """
from importlib import metadata
known = metadata.version
metadata.version = lambda name: "99.0" if name == "stable-baselines3" else known(name)
"""
    doc = json.loads(run(tmp_path, write(tmp_path, pretend + SB3), "--warmup", "0", "--json", "--", "ppo", "8192").stdout)
    (note,) = [warning for warning in doc["warnings"] if "adapter" in warning]
    assert note.startswith("stable-baselines3 99.0: hotlap's adapter knows 1.8 up to 3.0; ")
    assert {"collect/act", "collect/env_step", "update/loss", "update/backward"} <= doc["stages"].keys()


OWN = """
import numpy as np, torch
class Boards:  # no subclass of gym.Env
    def __init__(self, n): self.n, self.t = n, 0
    def reset(self): return np.zeros((self.n, 3), np.float32)
    def step(self, moves):
        self.t += 1
        return self.reset(), np.ones(self.n), np.full(self.n, self.t % 5 == 0)
class Agent:
    def __init__(self):
        self.net = torch.nn.Linear(3, 2); self.optimizer = torch.optim.SGD(self.net.parameters(), 0.1)
    def step(self, obs, reward):  # no environment
        self.optimizer.zero_grad(); self.net(torch.as_tensor(obs)).mean().backward(); self.optimizer.step()
boards, agent = Boards(np.int64(7)), Agent()
big = torch.nn.Linear(np.int64(3), np.int64(5))  # as np.prod gives it
obs = boards.reset()
import pickle, tempfile
kept, folder = [list(range(1000)), np.zeros(1000)], tempfile.mkdtemp()
for _ in range(10_000_000):
    with torch.no_grad(): moves = agent.net(torch.as_tensor(obs)).argmax(1).numpy()
    obs, reward, done = boards.step(moves)
    agent.step(obs, reward)
    with open(folder + "/kept.pkl", "wb") as file: pickle.dump(kept, file)
    np.savez(folder + "/kept.npz", *kept)
"""


def test_environment_classes_that_do_not_subclass_gym_env(tmp_path):
    doc = json.loads(run(tmp_path, write(tmp_path, OWN), "--seconds", "1", "--json").stdout)
    assert {"collect/act", "collect/env_step", "update/loss", "update/backward", "checkpoint"} <= doc["stages"].keys()
    counts = doc["counts"]
    assert counts["env_steps"] == pytest.approx(7 * counts["updates"], rel=0.01)
    assert counts["episodes"] == pytest.approx(counts["env_steps"] / 5, rel=0.05)
    some = OWN.replace("10_000_000", "3")
    doc = json.loads(run(tmp_path, write(tmp_path, some), "--seconds", "1", "--json").stdout)
    assert doc["counts"]["env_steps"] == 21 and doc["counts"]["updates"] == 3  # the first step, which proved it, included
    named = some.replace("def step(self, moves)", "def drive(self, pumps)").replace("boards.step", "boards.drive")
    doc = json.loads(run(tmp_path, write(tmp_path, named), "--seconds", "1", "--json").stdout)
    assert doc["counts"]["env_steps"] == 21  # by what it returns, whatever it is called
    unseen = OWN.replace("return self.reset(), np.ones(self.n),", "return None, np.ones(self.n),")
    unseen = unseen.replace("def step(self, moves)", "def drive(self, pumps)").replace("boards.step", "boards.drive")
    unseen = unseen.replace("obs, reward, done = boards", "_, reward, done = boards")
    doc = json.loads(run(tmp_path, write(tmp_path, unseen), "--seconds", "1", "--json").stdout)
    assert any("No environment was seen" in warning for warning in doc["warnings"])


GAME = """
import torch, pickle
class Snake:
    def reset(self): self.frames = 0
    def play_step(self, action):
        self.frames += 1
        return -0.1, self.frames == 4, 0  # reward, over, score: what is seen is asked for elsewhere
class Plateau:  # no environment either
    def step(self, loss): return loss, False
def step(state, action):  # an environment that is a function
    return (state[0] + 1, state[1]), torch.ones(3), 1.0, state[0] == 4
def reset(seed): return (0, seed)
net = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
snake, plateau, state = Snake(), Plateau(), reset(0)
snake.reset()
for _ in range(40):
    with torch.no_grad(): action = int(net(torch.ones(3)).argmax())
    if FUNCTION:
        state, seen, reward, over = step(state, action)
        if over: state = reset(1)
    else:
        reward, over, score = snake.play_step(action)
        if over: snake.reset()
    loss = net(torch.ones(3)).sum() * reward
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    plateau.step(loss.item())
"""


@pytest.mark.parametrize(("function", "episodes"), [("True", 8), ("False", 10)])
def test_games_that_return_no_observation_and_environments_that_are_functions(tmp_path, function, episodes):
    doc = json.loads(run(tmp_path, write(tmp_path, GAME.replace("FUNCTION", function)), "--seconds", "1", "--json").stdout)
    counts = doc["counts"]
    assert (counts["env_steps"], counts["updates"], counts["episodes"]) == (40, 40, episodes)
    assert {"collect/act", "collect/env_step", "collect/env_reset", "update/loss"} <= doc["stages"].keys()


def test_exports_and_a_profile_from_within(tmp_path):
    text = """
import hotlap
with hotlap.profile("inner", out="run", warmup=0) as run:
    exec(open("train.py").read())
run.show()
exec(open("train.py").read())  # nothing is measured any more
"""
    write(tmp_path, TRUTH)
    write(tmp_path, text, "outer.py")
    command = [sys.executable, "outer.py", "20"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300).stdout
    assert "Where the time went" in shown
    assert "env_step" in shown

    def report(kind):
        command = [sys.executable, "-m", "hotlap", "report", "run", "--format", kind]
        return tmp_path / subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    spans = [event for event in json.loads(report("trace").read_text())["traceEvents"] if event["ph"] == "X"]
    assert {"env_step", "act", "loss", "backward"} <= {span["name"] for span in spans}
    scope = json.loads(report("speedscope").read_text())
    (profile,) = scope["profiles"]
    assert len(profile["samples"]) == len(profile["weights"])
    assert max(number for stack in profile["samples"] for number in stack) < len(scope["shared"]["frames"])
    events = report("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    scalars = EventAccumulator(str(events)).Reload().Tags()["scalars"]
    assert {"rate/env_steps_per_s", "share/collect/env_step", "memory/rss"} <= set(scalars)

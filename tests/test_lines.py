"""What the lines of a training loop do, by the data that flows through them: scripts of every shape, as people write them.

The comment at the end of a line is the stage that it must be given; a line without one must be given none. The scripts run with
an environment and a loss that only say where they are called from.
"""

import json
import os
import random
import subprocess
import sys

import pytest

from hotlap.core.paths import STORE, TARGET
from hotlap.probe.lines import LoopLines
from hotlap.probe.sampler import Frame
from tests.test_portable import SOURCE, interpreters

STAGES = {"store": STORE, "advantage": "advantage", "target": TARGET, "sample": "sample", "no stage": ""}

NAMES = """replay net target policy torch preprocess compute td plot fold mse n_step scores history loader render_chart
observations advantages values rewards"""

PER_STEP_DQN = """
def train():
    obs = env.reset()
    for step in range(3):
        action = agent.act(obs)
        next_obs, reward, done, _ = env.step(action)
        replay.push(obs, action, reward, next_obs, done)  # store
        obs = next_obs  # store
        if len(replay) > 0:
            agent.learn(replay.sample(32))
        plot(scores)  # no stage
train()
"""

CLASS_AGENT = """
class Agent:
    memory = []
    def act(self, obs):
        return 0
    def observe(self, s, a, r, s2, done):
        self.memory.append((s, a, r, s2, done))  # store
        if len(self.memory) > 1:
            batch = random.sample(self.memory, 1)
            self.learn(batch)
    def learn(self, batch):
        loss = compute(batch)
        loss.backward()
        for p, q in zip(net.parameters(), target.parameters()):  # target
            q.data.copy_(0.01 * p.data + 0.99 * q.data)  # target
agent = Agent()
obs = env.reset()
for step in range(3):
    action = agent.act(obs)
    next_obs, reward, done, _ = env.step(action)
    agent.observe(obs, action, reward, next_obs, done)
    obs = next_obs  # store
"""

INLINE = """
memory = []
obs = env.reset()
while len(memory) < 3:
    action = 0 if random.random() < 0.1 else int(net(obs))
    raw, reward, done, info = env.step(action)
    next_obs = preprocess(raw)  # store
    reward = max(-1.0, min(1.0, reward))  # store
    memory.append((obs, action,  # store
                   reward, next_obs, done))  # store
    obs = next_obs  # store
    batch = random.sample(memory, 1)
    obs_batch, actions, reward, next_batch, done = zip(*batch)
    rewards = torch.tensor(reward)
    target_value = rewards + 0.99 * target(next_batch)
    loss = mse(net(obs_batch), target_value)
    loss.backward()
    target.load_state_dict(net.state_dict())  # target
"""

VECTOR_PUSH = """
def collect(states):
    next_states, rewards, dones, _ = envs.step([0, 0])
    for i in range(2):  # store
        replay.push(states[i], rewards[i].item(), next_states[i])  # store
        if dones[i]:  # store
            epsilon = 0.1  # store
    return next_states  # store

def main():
    states = envs.reset()
    for _ in range(3):
        states = collect(states)
        agent.learn(replay.sample(32))
main()
"""

PRIORITISED = """
def learn():
    batch, indices, weights = replay.sample(32)
    errors = td(batch)
    loss = (weights * errors).mean()
    loss.backward()
    replay.update_priorities(indices, errors)  # sample

obs = env.reset()
for _ in range(3):
    transition = env.step(0)
    n_step.append(transition)  # store
    if len(n_step) == 3:
        replay.add(fold(n_step))  # store
    learn()
"""

ON_POLICY = """
def returns_of(rewards):
    R, returns = 0.0, []
    for r in reversed(rewards):
        R = r + 0.99 * R
        returns.insert(0, R)
    return returns

def train():
    for _ in range(2):
        obs, log_probs, rewards = env.reset(), [], []
        for t in range(3):
            log_prob = policy(obs)
            obs, reward, done, _ = env.step(log_prob.action)
            log_probs.append(log_prob)  # store
            rewards.append(reward)  # store
            if done:
                break
        returns = returns_of(rewards)  # advantage
        loss = -(torch.stack(log_probs) * returns).sum()
        loss.backward()
        history.append(sum(rewards))  # store
train()
"""

INLINE_GAE = """
import contextlib
obs = env.reset()
for iteration in range(2):
    for t in range(3):
        observations[t] = obs
        obs, reward, done, _ = env.step(0)
        rewards[t] = reward  # store
    last = 0
    for t in reversed(range(3)):  # advantage
        delta = rewards[t] + 0.99 * values[t + 1] - values[t]  # advantage
        advantages[t] = last = delta + 0.95 * last  # advantage
    for batch in loader(observations, advantages):
        loss = compute(batch)
        loss.backward()
"""

GENERATOR = """
def play():
    obs = env.reset()
    while True:
        next_obs, reward, done, _ = env.step(0)
        yield obs, reward, next_obs  # store
        obs = next_obs  # store

def train():
    for number, transition in enumerate(play()):
        replay.add(transition)  # store
        loss = compute(replay.sample(2))
        loss.backward()
        if number == 3:
            break
train()
"""

EPISODES = """
for _ in range(3):
    obs, episode = env.reset(), []
    for t in range(3):
        next_obs, reward, done, _ = env.step(0)
        episode.append((obs, reward))  # store
        obs = next_obs  # store
    replay.add_episode(episode)  # store
    render_chart(7)  # no stage
    loss = compute(replay.sample(2))
    loss.backward()
"""


class Anything:
    """Stands for whatever a script uses: every attribute, call and number of it is another one."""

    def __init__(self, lines):
        self._lines = lines

    def __getattr__(self, name):
        return Anything(self._lines)

    def __call__(self, *_, **__):
        return Anything(self._lines)

    def __iter__(self):
        return iter([Anything(self._lines)] * 3)

    def __len__(self):
        return 1

    def __getitem__(self, _):
        return Anything(self._lines)

    def __setitem__(self, _, __):
        pass

    def __int__(self):
        return 0

    __index__ = __int__

    def __float__(self):
        return 0.0

    def __lt__(self, _):
        return False

    __gt__ = __eq__ = __bool__ = lambda self, *_: False
    __hash__ = None
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = lambda self, *_: self

    def backward(self):
        self._lines.note_training(sys._getframe(1))


class Env:
    def __init__(self, lines):
        self._lines = lines

    def reset(self):
        return Anything(self._lines)

    def step(self, action):
        self._lines.note_step(sys._getframe(1))
        return (Anything(self._lines),) * 4


class Agent(Anything):
    def learn(self, batch):
        self.backward()


def study(folder, text):
    """The stage of each line of a script, by what it did."""
    file = folder / "train.py"
    file.write_text(text)
    lines = LoopLines(lambda path: None)
    lines._monitor = None  # as before Python 3.12
    scope = dict.fromkeys(NAMES.split(), Anything(lines))
    scope |= {"env": Env(lines), "envs": Env(lines), "agent": Agent(lines), "random": random, "__name__": "__main__"}
    exec(compile(text, str(file), "exec"), scope)
    assert lines.study() is not None
    return {line: path for paths in lines._paths.values() for line, path in paths.items()}, lines


SHAPES = {
    "per-step DQN": PER_STEP_DQN,
    "class agent": CLASS_AGENT,
    "inline": INLINE,
    "vector": VECTOR_PUSH,
    "prioritised": PRIORITISED,
    "on-policy lists": ON_POLICY,
    "inline GAE": INLINE_GAE,
    "generator": GENERATOR,
    "episodes": EPISODES,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_lines_belong_to_the_stage_of_their_data(shape, tmp_path):
    text = SHAPES[shape]
    expected = {
        number: STAGES[comment.strip()]
        for number, line in enumerate(text.splitlines(), 1)
        if (comment := line.partition("  # ")[2])
    }
    found, _ = study(tmp_path, text)
    assert found == expected


def test_the_innermost_line_that_is_known_names_a_stack_sample(tmp_path):
    _, lines = study(tmp_path, PER_STEP_DQN)
    file = str(tmp_path / "train.py")
    pushing = Frame(file, "train", 2, 7)
    assert lines.path_of((Frame("buffer.py", "push", 5, 9), pushing)) == STORE
    assert lines.path_of((Frame(file, "train", 2, 10),)) is None
    assert lines.path_of((Frame(file, "other", 1, 7),)) is None


RIG = """
import sys
from hotlap.core.paths import BACKWARD as GRADIENTS, OPTIMIZER as OPTIMIZE, STEP
from hotlap.probe.events import Events
from hotlap.probe.hooks import functions
from hotlap.probe.kinds import BACKWARD, FORWARD, STEPPED

clock, samples = 0, []
events = Events(now=lambda: clock)
events.on_study = functions.hook

def spend(milliseconds):
    global clock
    clock += milliseconds * 1_000_000

class Env:
    def step(self, action):
        begin = events.environment(STEP)
        spend(100)
        events.stepped(STEPPED, begin, 1, 1)
        return [0.0], 1.0, False, {}

class Loss:
    def backward(self):
        begin = events.begin(GRADIENTS)
        events.lines.note_training(sys._getframe(1))
        spend(10)
        events.end(BACKWARD, begin)

def forward(batch):
    begin = events.begin("")
    spend(20)
    events.end(FORWARD + 1, begin, 32)
    return Loss()

def optimize():
    begin = events.begin(OPTIMIZE)
    spend(5)
    events.optimizer_ended(begin)
"""

CLOCKED = """
import json, random, sys
from rig import Env, events, forward, optimize, samples, spend

class Replay:
    def __init__(self): self.items = []
    def push(self, *transition): spend(400); self.items.append(transition)
    def sample(self): spend(70); return self.items[:1]

env, replay, memory, obs = Env(), Replay(), [], [0.0]
def cost(x): spend(40); return x
def with_class():
    obs = [0.0]
    for _ in range(20):
        next_obs, reward, done, _ = env.step(0)
        replay.push(obs, reward, next_obs)
        loss = forward(replay.sample())
        loss.backward()
        optimize()
def inline():
    obs = [0.0]
    for _ in range(20):
        next_obs, reward, done, _ = env.step(0)
        memory.append((cost(obs), reward, cost(next_obs)))
        spend(7)
        batch = cost(random.sample(memory, 1))
        loss = forward(batch)
        loss.backward()
        optimize()
events.start(samples.append)
{"class": with_class, "inline": inline}[sys.argv[1]]()
events.stop()
total = {}
for sample in samples[2:]:
    for path, time in sample.exclusive.items():
        total[path] = total.get(path, 0) + time // 1_000_000
print(json.dumps({"total": total, "wall": sum(s.wall for s in samples[2:]) // 1_000_000, "windows": len(samples[2:])}))
"""


@pytest.mark.parametrize(
    ("version", "shape"), [("3.9", "class"), (None, "class"), ("3.12", "class"), ("3.12", "inline"), ("3.13", "inline")]
)
def test_time_is_split_where_storing_ends(version, shape, tmp_path):
    """By the functions of the loop in any Python, by its lines from 3.12 on. The clock is the script's own: times are exact."""
    python = sys.executable if version is None else interpreters().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    (tmp_path / "train.py").write_text(CLOCKED)
    library = tmp_path / "site-packages"  # what lies there is no user code
    library.mkdir()
    (library / "rig.py").write_text(RIG)
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{library}", "HOTLAP_FRAMEWORKS": ""}
    command = [python, "-s", "train.py", shape]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=120)
    outcome = json.loads(result.stdout)
    total, rounds = outcome["total"], outcome["total"]["update/optimizer"] // 5
    store, sample, none = (400, 70, 0) if shape == "class" else (80, 40, 7)
    assert rounds > 3
    assert (total["collect/store"], total["sample"]) == (store * rounds, sample * rounds)
    assert outcome["wall"] - sum(total.values()) == none * rounds

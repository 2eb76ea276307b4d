"""Hand-made profiles: what tests of the rules run on."""

import json

from hotlap.core.sample import Sample
from hotlap.record.files import SOURCES, STACKS
from hotlap.record.header import Setup, Verb
from hotlap.record.lines import Recorded, append_line
from hotlap.record.machine import Limits, Machine
from hotlap.record.observed import Description, EnvChain, Net, Observed, TorchSwitches, Usage
from hotlap.record.run import Run, load

MS = 1_000_000
TORCH = TorchSwitches(threads=1)
NET = Net("Sequential", 9_000, 6, {"Linear": 3}, inputs=4, outputs=2, widest=64)
VECTOR = (EnvChain(("SyncVectorEnv", "CartPoleEnv"), num_envs=32),)


def make_run(
    path,
    shares,
    counts,
    *,
    windows=12,
    nets=(NET,),
    environments=VECTOR,
    optimizers=(),
    torch=TORCH,
    stacks=(),
    sources=None,
    workers=None,
    cores=2.0,
    memory_limit=None,
    scale=lambda i: {},
    phase=lambda i: "measured",
    rss=lambda i: 1e8,
    peak=1,
    gpu_busy=None,
    threads=None,
    types=None,
    config=None,
    what_if=None,
):
    """A profile of windows of 300 ms: shares by stage, counts per window; `scale` multiplies stages of the i-th window."""
    limits = Limits(memory=memory_limit)
    machine = Machine("x", 2, cores, limits, (0.0, 0.0, 0.0), memory=8_000_000_000)
    target = config or {"script": "train.py"}
    run = Run.create(Verb.PROFILE, target.get("script", "snake"), target, machine, path, setup=Setup(stage_cost=1e-6))
    _write_windows(run, shares, counts, windows, scale, phase, rss)
    _write_workers(path, workers, windows)
    _write_stacks(path, stacks, sources or {})
    description = Description(tuple(environments), tuple(nets), tuple(optimizers), torch, gemm_rate=5e10)
    run.finish(
        observed=Observed(
            usage=Usage(peak, gpu_busy),
            threads=threads or {},
            types=types or {},
            description=description,
            sampler_period=0.01,
            what_if=what_if,
        )
    )
    return load(path)


def _write_windows(run, shares, counts, windows, scale, phase, rss):
    at = 0
    for i in range(windows):
        factors = scale(i)
        exclusive = {name: int(share * 300 * MS * factors.get(name, 1.0)) for name, share in shares.items()}
        wall = max(300 * MS, sum(exclusive.values()))
        inclusive = dict(exclusive)
        for name in list(exclusive):
            top = name.partition("/")[0]
            if top != name:
                inclusive[top] = inclusive.get(top, 0) + exclusive[name]
        exclusive |= {name: 0 for name in inclusive if name not in exclusive}
        counted = {name: value(i) if callable(value) else value for name, value in counts.items()}
        sample = Sample(at, wall, exclusive, inclusive, dict.fromkeys(exclusive, 10), counted)
        run.append(Recorded(phase(i), sample, int(rss(i))))
        at += wall


def _write_workers(path, workers, windows):
    if not workers:
        return
    (path / "workers").mkdir()
    row = {name: value for name, value in workers.items() if name not in ("count", "env_share")}
    exclusive = {"collect/env_step": int(workers["env_share"] * 300 * MS)}
    for number in range(workers["count"]):
        for i in range(windows):
            counted = {name: value(i) if callable(value) else value for name, value in row.items()}
            sample = Sample(i * 300 * MS, 300 * MS, exclusive, exclusive, dict.fromkeys(exclusive, 1), counted)
            append_line(path / "workers" / f"{number}.jsonl", Recorded("train", sample, 10**8))


def _write_stacks(path, stacks, sources):
    frames, listed = [], []
    for stage, stack, seconds, *native in stacks:
        places = []
        for frame in stack:
            if frame not in frames:
                frames.append(frame)
            places.append(frames.index(frame))
        listed.append([stage, places, seconds, native[0] if native else 0.0])
    named = [{"name": n, "file": f, "line": line, "user": f in sources} for n, f, line in frames]
    (path / STACKS).write_text(json.dumps({"frames": named, "stacks": listed}))
    (path / SOURCES).write_text(json.dumps(sources))


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
SUBPROCESSES = {"collect/act": 0.05, "collect/env_step": 0.05, "collect/wait": 0.7, "update/loss": 0.1, "update/backward": 0.1}
MANY = (EnvChain(("AsyncVectorEnv",), num_envs=200),)
TWO = (EnvChain(("AsyncVectorEnv",), num_envs=2),)
SINGLE = (EnvChain(("Hearts",)),)


def worker(**changes):
    """A worker that steps twice per window of 0.3 s."""
    base = {"count": 8, "env_share": 0.02, "env_steps": 2.0, "step_median": 2.6e-3, "step_p99": 3e-3, "cpu_seconds": 0.006}
    return base | changes


def steps(number):
    return PPO_COUNTS | {"env_steps": number, "forwards@collect/act": 1, "rows@collect/act": number}


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
IN_STEP = [("main", "train.py", 15), ("step", "train.py", 3)]
IN_LOOP = [*IN_STEP, ("fill", "train.py", 8)]
LEAKING = SLOW_ENV.replace("return self.fill(action)", "self.seen.append(action)\n        return self.fill(action)").replace(
    "    def fill", "    def reset(self):\n        self.board = 0\n\n    def fill"
)

WRAPPED = """\
class Scaled(gym.Wrapper):
    def step(self, action):
        return self.env.step(action)


def main():
    while True:
        env.step(0)
"""
STORING = """\
def main():
    for step in range(100):
        for i in range(8):
            buffer.push(obs[i].numpy(), reward[i].item())
"""
DEQUE = """\
import random
memory = deque(maxlen=100)
def learn():
    batch = random.sample(memory, 32)
    picked = [memory[i] for i in indices]
"""
TREE = """\
class SumTree:
    def retrieve(self, value):
        while node < size:
            node = 2 * node + 1


def sample(tree):
    for i in range(32):
        tree.retrieve(i)


def main():
    while True:
        sample(tree)
"""
LEARNING = """\
import torch
def learn(batch):
    states = torch.tensor([b.state for b in batch])
    loss.backward()


def gae(rewards):
    for t in reversed(range(128)):
        advantage[t] = rewards[t]


def recurrent(x):
    for t in range(16):
        out, hidden = lstm(x[:, t], hidden)


def soft_update(net, target):
    for p, q in zip(net.parameters(), target.parameters()):
        q.data.copy_(p)


def act(obs):
    return policy(obs)


def log(writer):
    writer.add_scalar("loss", 0.0)
    gc.collect()


def evaluate(env):
    env.step(0)


def resize(frame):
    return cv2.resize(frame, (84, 84))
"""
KEPT_GRAPH = """\
def learn():
    loss = criterion()
    loss.backward()
    losses.append(loss)
"""
ROWS_ONE_BY_ONE = """\
BATCH = 128


def learn(batch):
    for i in range(target.size(0)):
        target[i].index_add_(0, low[i], mass[i])
    loss.backward()
    optimizer.step()


def main():
    while True:
        env.step(0)
        learn(batch)
"""
TREE_SEARCH = """\
class Search:
    def run(self, state):
        for _ in range(50):
            leaf = self.select(state)
            self.expand(leaf)

    def select(self, node):
        return max(node.children, key=self.score)

    def expand(self, node):
        node.children = [Node(m) for m in node.moves()]


def main():
    while True:
        move = search.run(state)
        learn(batch)


def learn(batch):
    loss.backward()
"""

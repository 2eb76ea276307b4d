"""Rewrites that use hotlap.fast: the code before and after computes the same, and the patch carries the file with it."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from hotlap.experiment import learning
from hotlap.fast import polyak, replay, returns
from hotlap.interventions import drop_ins, making, rewrite
from hotlap.interventions.code import Code
from hotlap.interventions.edit import apply, diff
from hotlap.investigate.apply import Withheld, files_of, withheld
from hotlap.investigate.sources import Sources
from hotlap.record.hypothesis import Hypothesis
from hotlap.record.intervention import Edit, Intervention
from hotlap.record.investigation import InvestigationState, LearningCheck, LearningVerdict, LossCheck, Settings
from hotlap.target.target import Script, Variant
from hotlap.target.variant import with_intervention


@pytest.fixture(autouse=True)
def beside_the_script(monkeypatch):
    """The drop-ins can be imported as a patch puts them there."""
    for module in (polyak, replay, returns):
        monkeypatch.setitem(sys.modules, drop_ins.module(module.__name__.rpartition(".")[2]), module)


def run(text):
    names = {"__name__": "script"}
    exec(compile(text, "<script>", "exec"), names)
    return names["result"]()


def line_of(text, part):
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def rewritten(text, part, edit):
    edits = edit(Code(text), line_of(text, part))
    return apply(text, edits) if edits else None


def equal(a, b):
    if isinstance(a, torch.Tensor | np.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return a == b


ROLLOUT = """\
import numpy as np
import torch


class args:
    num_steps, gamma, lam = 7, 0.99, 0.95


torch.manual_seed(0)
rewards, values = torch.randn(7, 3), torch.randn(7, 3)
dones = (torch.rand(7, 3) < 0.3).float()
next_value, next_done = torch.randn(3), torch.ones(3)
longer, masks = torch.cat((values, next_value[None])), 1 - torch.cat((dones, next_done[None]))


def result():
BODY
"""
LOOPS = {
    "cleanrl": """
        advantages = torch.zeros_like(rewards)
        lastgaelam = 0
        for t in reversed(range(args.num_steps)):
            if t == args.num_steps - 1:
                nextnonterminal = 1.0 - next_done
                nextvalues = next_value
            else:
                nextnonterminal = 1.0 - dones[t + 1]
                nextvalues = values[t + 1]
            delta = rewards[t] + args.gamma * nextvalues * nextnonterminal - values[t]
            advantages[t] = lastgaelam = delta + args.gamma * args.lam * nextnonterminal * lastgaelam
        return advantages""",
    "values with one row more, constants": """
        out, last = torch.zeros_like(rewards), torch.tensor(0.0)
        for t in range(len(rewards) - 1, -1, -1):
            delta = rewards[t] + 0.9 * longer[t + 1] * (1.0 - dones[t]) - longer[t]
            last = delta + 0.9 * 0.8 * (1.0 - dones[t]) * last
            out[t] = last
        return out""",
    "masks of the next step": """
        out, last = torch.zeros_like(rewards), 0.0
        for t in reversed(range(7)):
            delta = rewards[t] + args.gamma * longer[t + 1] * masks[t + 1] - longer[t]
            out[t] = last = delta + args.gamma * args.lam * masks[t + 1] * last
        return out""",
    "the value carried along": """
        out, running, following = torch.zeros_like(rewards), torch.zeros(3), next_value
        for t in reversed(range(7)):
            alive = 1.0 - dones[t]
            delta = rewards[t] + args.gamma * following * alive - values[t]
            running = delta + args.gamma * args.lam * alive * running
            out[t] = running
            following = values[t]
        return out""",
    "returns": """
        out, ret = np.zeros((7, 3), np.float32), next_value.numpy()
        rew, ended = rewards.numpy(), dones.numpy()
        for t in reversed(range(7)):
            ret = out[t] = rew[t] + args.gamma * ret * (1 - ended[t])
        return out""",
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_loops_over_a_rollout_become_one_call(loop):
    text = ROLLOUT.replace("BODY", loop.replace("\n    ", "\n").strip("\n"))
    after = rewritten(text, "out[t]" if "out[t]" in text else "delta =", rewrite.vectorised_returns)
    assert after is not None and "for t in" not in after and "hotlap_returns." in after
    before_rows, after_rows = run(text), run(after)
    assert type(before_rows) is type(after_rows) and before_rows.dtype == after_rows.dtype
    assert np.allclose(before_rows, after_rows, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("- values[t]", "- 2 * values[t]"),  # no advantage
        ("return advantages", "return advantages, lastgaelam"),  # used below
        ("lastgaelam = 0\n", "lastgaelam = 1\n"),  # does not begin at zero
        ("advantages[t] = lastgaelam =", "advantages[t] = lastgaelam = print() or"),  # does more than compute
        ("lastgaelam * 1", ""),
    ],
)
def test_a_loop_that_computes_something_else_is_left_alone(old, new):
    text = ROLLOUT.replace("BODY", LOOPS["cleanrl"].replace("\n    ", "\n").strip("\n")).replace(old, new)
    assert (rewritten(text, "delta =", rewrite.vectorised_returns) is None) == (new != "")


REPLAY = """\
import random
from collections import deque, namedtuple

import numpy as np
import torch

Transition = namedtuple("Transition", ("state", "action", "reward", "after", "done"))


class Memory:
    def __init__(self, capacity):
        self.rows = deque(maxlen=capacity)

    def push(self, *row):
        self.rows.append(ROW)

    def sample(self, size):
        SAMPLE

    def __len__(self):
        return len(self.rows)


def result():
    random.seed(0)
    np.random.seed(0)
    memory, drawn = Memory(50), []
    for k in range(120):
        state = STATE
        memory.push(state, k % 4, k / 3, state + 1, k % 5 == 0)
        if len(memory) >= 8:
            USE
    return drawn
"""
ARRAY, TENSOR = "np.full(3, k, np.float32)", "torch.full((1, 3), float(k))"
DIRECT = "drawn.append(memory.sample(8))"
SAMPLES = {
    "zip": (
        ARRAY,
        "row",
        "s, a, r, n, d = zip(*random.sample(self.rows, size))\n        return np.array(s), a, r, np.stack(n), d",
        DIRECT,
    ),
    "batch": (
        ARRAY,
        "row",
        "batch = random.sample(self.rows, size)\n        s, a, r, n, d = zip(*batch)\n"
        "        return torch.FloatTensor(np.array(s)), torch.tensor(r), torch.tensor(a), torch.tensor(np.array(n))",
        DIRECT,
    ),
    "columns": (
        ARRAY,
        "Transition(*row)",
        "batch = random.sample(self.rows, k=size)\n        batch = random.sample(self.rows, size)\n"
        "        return np.vstack([e.state for e in batch if e is not None]), np.array([e[2] for e in batch])",
        DIRECT,
    ),
    "tutorial": (
        TENSOR,
        "Transition(*row)",
        "return random.sample(self.rows, size)",
        "transitions = memory.sample(8)\n            batch = Transition(*zip(*transitions))\n"
        "            drawn.append((torch.cat(batch.state), torch.tensor(batch.reward), torch.stack(batch.after)))",
    ),
    "indices": (
        ARRAY,
        "row",
        "picks = np.random.choice(len(self.rows), size, replace=False)\n        batch = [self.rows[i] for i in picks]\n"
        "        return np.array([b[0] for b in batch]), [b[1] for b in batch]",
        DIRECT,
    ),
}


def replay_script(name):
    state, row, sample, use = SAMPLES[name]
    return REPLAY.replace("STATE", state).replace("ROW", row).replace("SAMPLE", sample).replace("USE", use)


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "columns"])
def test_a_ring_draws_the_same_batches_as_the_deque(name):
    text = replay_script(name)
    after = rewritten(text, "self.rows[i]" if name == "indices" else "random.sample(", rewrite.ring)
    assert after is not None and "deque(maxlen" not in after and "random.sample(" not in after
    before_rows, after_rows = run(text), run(after)
    assert len(before_rows) == 113
    for old, new in zip(before_rows, after_rows, strict=True):
        assert all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(old, new, strict=True))
        assert [getattr(a, "dtype", None) for a in old] == [getattr(b, "dtype", None) for b in new]


def test_fields_of_named_rows_become_columns():
    text = replay_script("columns").replace("        batch = random.sample(self.rows, k=size)\n", "")
    after = rewritten(text, "random.sample(", rewrite.ring)
    assert after is not None and "batch.column('state')" in after and "batch.column(2)" in after
    assert equal(run(text), run(after))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.rows.append(row)", "self.rows.appendleft(row)"),
        ("self.rows.append(row)", "self.rows.append({'row': row})"),
        ("return len(self.rows)", "return len(list(self.rows))"),
        ("deque(maxlen=capacity)", "deque([1], maxlen=capacity)"),
        ("deque(maxlen=capacity)", "Other(capacity)"),
    ],
)
def test_a_container_with_another_use_is_left_alone(old, new):
    text = replay_script("zip")
    assert old in text
    assert rewritten(text.replace(old, new), "random.sample(", rewrite.ring) is None


SOFT = """\
import torch
from torch import nn


def result():
    torch.manual_seed(0)
    tau, net, target = 0.005, nn.Linear(3, 2), nn.Linear(3, 2)
    with torch.no_grad():
        LOOP
    return [p.detach().clone() for p in target.parameters()]
"""
SOFT_LOOPS = [
    "for p, q in zip(net.parameters(), target.parameters()):\n            q.data.copy_((1 - tau) * q.data + tau * p.data)",
    "for q, p in zip(target.parameters(), net.parameters()):\n            q.copy_(tau * p + q * (1.0 - tau))",
    "for p, q in zip(net.parameters(), target.parameters()):\n            q.data.copy_(0.005 * p.data + (1 - 0.005) * q.data)",
]


@pytest.mark.parametrize("loop", SOFT_LOOPS)
def test_soft_updates_become_one_call(loop):
    text = SOFT.replace("LOOP", loop)
    after = rewritten(text, "copy_(", rewrite.soft_update)
    assert after is not None and "hotlap_polyak.soft_update(target.parameters(), net.parameters(), " in after
    assert equal(run(text), run(after))


@pytest.mark.parametrize("wrong", ["tau * p.data + q.data", "(1 - tau) * p.data + tau", "torch.lerp(q, p, tau)"])
def test_other_loops_over_parameters_are_left_alone(wrong):
    text = SOFT.replace("LOOP", SOFT_LOOPS[0].replace("(1 - tau) * q.data + tau * p.data", wrong))
    assert rewritten(text, "copy_(", rewrite.soft_update) is None


C51 = """\
import torch


def result():
    torch.manual_seed(0)
    probs, place = torch.rand(6, 5), torch.rand(6, 5) * 4
    l, u = place.floor(), place.ceil()
    target = torch.zeros(6, 5)
    # C51
    for i in range(target.size(0)):
        target[i].index_add_(0, l[i].long(), probs[i])
        target[i].index_add_(0, u[i].long(), probs[i])
    return target
"""


def test_rows_of_a_projection_are_added_at_once():
    for part in ("index_add_(0, u", "for i in"):
        after = rewritten(C51, part, rewrite.scattered_rows)
        assert (
            after is not None and "for i in" not in after and "# C51" in after and "scatter_add_(1, u.long(), probs)" in after
        )
        assert equal(run(C51), run(after))
    assert rewritten(C51.replace("(0, u[i]", "(0, u[0]"), "for i in", rewrite.scattered_rows) is None


def test_optimizers_and_clipping_take_all_tensors_at_once():
    text = (
        "import torch\nfrom torch import nn\nfrom torch.optim import AdamW\n"
        "a = torch.optim.Adam(net.parameters(), lr=1e-3)\n"
        "b = AdamW(\n    net.parameters(),\n    lr=1e-3,\n)\n"
        "c = torch.optim.Adam(net.parameters(), foreach=True)\nd = torch.optim.LBFGS(net.parameters())\n"
        "nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n"
    )
    code = Code(text)
    after = apply(text, rewrite.fused_optimizers(code))
    assert after.count("fused=True") == 2 and "lr=1e-3, fused=True)" in after
    assert "net.parameters(), 1.0, foreach=True)" in apply(text, rewrite.clipped_at_once(code))


def test_what_is_not_written_has_a_reason(tmp_path):
    edits = {"train.py": (Edit(1, 1, ("import hotlap_returns",)),)}
    edit = Intervention("edit", edits=edits, new_files={"hotlap_returns.py": "A = 1\n"})
    recipe = Intervention("recipe", arguments=("--batch", "64"), changes_learning=True)
    accepted = [Hypothesis(n, "cause", 1, intervention=i, accepted=True) for n, i in enumerate((edit, recipe))]
    other = LearningCheck(losses=LossCheck(LearningVerdict.OTHER_LOSSES, 40, 0.1))

    def state(*hypotheses, **fields):
        return InvestigationState(hypotheses=hypotheses, **fields)

    assert withheld(state(), False) is Withheld.NOTHING_ACCEPTED
    assert withheld(state(settings=Settings(dry=True)), False) is Withheld.PLAN_ONLY
    assert withheld(state(unsafe=("writes to a database",)), False) is Withheld.UNSAFE
    assert withheld(state(accepted[0], learning=other), False) is Withheld.OTHER_LOSSES
    assert withheld(state(*accepted), False) is Withheld.CHANGES_LEARNING
    assert withheld(state(*accepted), True) is None and withheld(state(accepted[0]), False) is None
    script = str(tmp_path / "train.py")
    sources = Sources(tmp_path, Script(script), {"train.py": "a\n"}, {"train.py": script})
    assert files_of(state(accepted[0], learning=other), sources, False) == {}
    (written,) = files_of(state(*accepted), sources, False).values()
    assert "+import hotlap_returns" in written and "--- /dev/null" in written and "+A = 1" in written
    assert len(files_of(state(*accepted), sources, True)) == 2


def test_a_patch_adds_the_file_and_the_patched_script_runs(tmp_path):
    text = replay_script("zip") + "\nprint(sum(float(rows[0].sum()) for rows in result()))\n"
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(text)
    after = rewritten(text, "random.sample(", rewrite.ring)
    patch = diff("train.py", text, after)
    patch += "".join(diff(name, None, content) for name, content in drop_ins.files("replay").items())
    (project / "hotlap.patch").write_text(patch)

    def shell(*command):
        return subprocess.run(command, cwd=project, check=True, capture_output=True, text=True).stdout

    shell("git", "init", "-q", "..")  # paths are as they are from here, also below the top of a repository
    python = (sys.executable, "-P", "-c", "import sys, runpy; sys.path[:0] = ['.']; runpy.run_path('train.py')")
    before = shell(*python)
    shell("git", "apply", "--check", "hotlap.patch")
    shell("git", "apply", "hotlap.patch")
    assert (project / "hotlap_replay.py").is_file() and shell(*python) == before


DQN = """\
import random
from collections import deque

import gymnasium
import numpy as np
import torch
from torch import nn


class Agent:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        self.target = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        self.memory = deque(maxlen=20_000)

    def act(self, state):
        if random.random() < 0.2:
            return random.randrange(2)
        with torch.no_grad():
            return int(self.net(torch.from_numpy(state)).argmax())

    def learn(self):
        batch = random.sample(self.memory, 64)
        states, actions, rewards, afters, dones = zip(*batch)
        states, afters = torch.tensor(np.array(states)), torch.tensor(np.array(afters))
        rewards, dones = torch.tensor(rewards, dtype=torch.float32), torch.tensor(dones, dtype=torch.float32)
        with torch.no_grad():
            goal = rewards + 0.99 * self.target(afters).max(1).values * (1 - dones)
        value = self.net(states).gather(1, torch.tensor(actions)[:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(value, goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        for p, q in zip(self.net.parameters(), self.target.parameters()):
            q.data.copy_((1 - 0.005) * q.data + 0.005 * p.data)


def main():
    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    env, agent = gymnasium.make("CartPole-v1"), Agent()
    state, _ = env.reset(seed=0)
    for step in range(1_000_000):
        action = agent.act(state)
        after, reward, terminated, truncated, _ = env.step(action)
        agent.memory.append((state, action, reward, after, terminated))
        state = env.reset()[0] if terminated or truncated else after
        if step >= 64:
            agent.learn()


main()
"""


@pytest.mark.exact
def test_in_a_scratch_the_drop_ins_are_there_and_the_losses_are_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(DQN)
    code = Code(DQN)
    intervention = Intervention(
        "drop-ins",
        edits={
            "train.py": (
                *rewrite.ring(code, line_of(DQN, "random.sample(")),
                *rewrite.soft_update(code, line_of(DQN, "copy_(")),
            )
        },
        new_files={**drop_ins.files("replay"), **drop_ins.files("polyak")},
    )
    base = Variant("original", Script("train.py"))
    paths = {"train.py": str(tmp_path / "train.py")}
    changed = with_intervention(base, intervention, {"train.py": DQN}, paths, tmp_path / "texts", "changed")
    check = learning.same_losses(base, changed, tmp_path / "curves", seconds=400.0)
    assert (check.verdict, check.compared, check.difference) == (LearningVerdict.SAME_LOSSES, learning.LOSSES, 0.0)
    assert not (tmp_path / "hotlap_replay.py").exists()  # the user's folder stays as it is


def test_a_text_without_a_file_can_be_imported_while_it_is_tried(tmp_path, monkeypatch):
    import json

    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.json").write_text(json.dumps({"hotlap_tried.py": "VALUE = 7\n"}))
    with making("source", texts_in=str(tmp_path / "texts.json")):
        import hotlap_tried

        assert hotlap_tried.VALUE == 7
    sys.modules.pop("hotlap_tried")
    with pytest.raises(ImportError):
        import hotlap_tried

"""Rewrites of the user's code: they give code that does the same, keep every comment, and touch nothing else; edits by lines.

Every rewrite is tried on files with spaces and tabs, LF and CRLF, with and without a last newline, below code that nobody
meant and below Python's newer syntax.
"""
# ruff: noqa: E501 - code before and after, side by side

import ast
import io
import subprocess
import sys
import textwrap
import tokenize
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotlap.interventions import batching, rewrite
from hotlap.interventions.code import Code, lines_of
from hotlap.interventions.edit import Edit, Overlap, apply, diff, edits_between, to_original
from hotlap.interventions.rewrite.patch import Patch, is_python, text


def run_code(source, **names):
    scope = dict(names)
    exec(compile(source, "<test>", "exec"), scope)
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
    torch = pytest.importorskip("torch")
    data = (torch.arange(4), torch.rand(4), torch.rand(4, 3))
    old, new = [], []
    run_code(PUSHES)["collect"](*data, old)
    run_code(text)["collect"](*data, new)
    assert old == new
    reassigned = PUSHES.replace("            out.append", "            actions = actions + 0\n            out.append")
    assert "actions_values" not in apply(reassigned, rewrite.hoisted_items(Code(reassigned), 6))


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
    torch = pytest.importorskip("torch")
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
    assert apply(loop, rewrite.fewer_rounds(Code(loop), 2, 8)).startswith("for _ in range(max(1, UPDATES // 8)):")
    often = "if step % EVERY == 0 and ready:\n    evaluate()\n"
    assert "step % (EVERY * 10) == 0" in apply(often, rewrite.rarer_condition(Code(often), 2))
    kept = "losses.append(loss)\ntotal += loss\n"
    assert apply(kept, [*rewrite.detached(Code(kept), 1), *rewrite.detached(Code(kept), 2)]) == (
        "losses.append(loss.detach())\ntotal += loss.detach()\n"
    )


def test_numbers_are_found_by_name_and_value_wherever_they_are():
    text = "BATCH_SIZE = N\nmodel = PPO(batch_size=N, n_steps=32)\nadd_argument('--minibatch', default=N)\na, BATCH = 1, N\n"
    before = text.replace("N\n", "32\n").replace("=N", "=32").replace("N)", "32)")
    rewritten = apply(before, rewrite.number(Code(before), "batch", 32, lambda _: "256"))
    assert rewritten == text.replace("N\n", "256\n").replace("=N", "=256").replace("N)", "256)")


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
    torch = pytest.importorskip("torch")
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


# -- every rewrite, on files of every kind --


@dataclass(frozen=True)
class Case:
    """A rewrite, the code that it is to change, at the line with `# HERE`, and what that becomes."""

    name: str
    rewrite: object  # (code, line) -> Edits
    before: str
    after: str
    again: bool = False  # whether a second time may change more


IMPORTS = "import torch\nimport numpy as np\n"
CASES = [
    Case(
        "no_grad",
        rewrite.no_grad,
        """\
        def act(obs):
            # choose
            action, value = net(  # HERE
                obs,  # a batch
                mask=[
                    1,  # one
                ],
            )  # end
            return action
        """,
        """\
        def act(obs):
            # choose
            with torch.no_grad():
                action, value = net(  # HERE
                    obs,  # a batch
                    mask=[
                        1,  # one
                    ],
                )  # end
            return action
        """,
    ),
    Case(
        "no_grad with a string of several lines",
        rewrite.no_grad,
        "def act(obs):\n    return log(net(obs), '''\n  as it is  # no comment\n''').item()  # HERE\n",
        "def act(obs):\n    with torch.inference_mode():\n        return log(net(obs), '''\n  as it is  # no comment\n''').item()  # HERE\n",
    ),
    Case(
        "hoisted_items",
        rewrite.hoisted_items,
        """\
        for step in range(9):
            # each environment
            for i in range(len(actions)):
                out.append((
                    states[i].cpu().numpy(),  # a state
                    actions[i].item(), (rewards  # HERE
                        [i]).item(),
                ))
        """,
        """\
        for step in range(9):
            # each environment
            states_rows = states.detach().cpu().numpy()
            actions_values = actions.reshape(-1).tolist()
            rewards_values = rewards.reshape(-1).tolist()
            for i in range(len(actions)):
                out.append((
                    states_rows[i],  # a state
                    actions_values[i], (rewards_values  # HERE
                        [i]),
                ))
        """,
    ),
    Case(
        "stacked_tensor",
        rewrite.stacked_tensor,
        """\
        def learn(rows):
            x = torch.as_tensor(  # HERE
                [row.x for row in rows],  # a list
                dtype=torch.float32,
            )
            return x
        """,
        """\
        def learn(rows):
            x = torch.as_tensor(  # HERE
                np.asarray([row.x for row in rows]),  # a list
                dtype=torch.float32,
            )
            return x
        """,
    ),
    Case(
        "stacked_tensor of a legacy class",
        rewrite.stacked_tensor,
        """\
        x = f(torch.FloatTensor(
            rows,  # HERE
        ), torch.LongTensor(actions))
        """,
        """\
        x = f(torch.tensor(
            np.asarray(rows), dtype=torch.float32,  # HERE
        ), torch.tensor(np.asarray(actions), dtype=torch.int64))
        """,
    ),
    Case(
        "detached",
        rewrite.detached,
        """\
        def keep(losses, a, b):
            losses.append(
                # both
                a * 0.5
                + b,  # HERE
            )
        """,
        """\
        def keep(losses, a, b):
            losses.append(
                # both
                (a * 0.5
                + b).detach(),  # HERE
            )
        """,
    ),
    Case(
        "recorded",
        rewrite.recorded,
        """\
        class Env:
            @property  # cheap?
            # it is not
            def board(self):
                return [
                    cell for cell in self.cells  # HERE
                ]
        """,
        """\
        class Env:
            @property  # cheap?
            # it is not
            @__import__("hotlap.interventions.source", fromlist=["_"]).recorded
            def board(self):
                return [
                    cell for cell in self.cells  # HERE
                ]
        """,
    ),
    Case(
        "rarer",
        rewrite.rarer,
        "@log\ndef evaluate(env):\n    return env  # HERE\n",
        '@log\n@__import__("hotlap.interventions.source", fromlist=["_"]).rarer(10)\ndef evaluate(env):\n    return env  # HERE\n',
    ),
    Case(
        "skipped_loop",
        rewrite.skipped_loop,
        """\
        for a, b in zip(
            first,  # of these
            second,
        ):
            work(a, b)  # HERE
        """,
        """\
        for a, b in __import__("hotlap.interventions.source", fromlist=["_"]).skipped(zip(
            first,  # of these
            second,
        ), "LINE"):
            work(a, b)  # HERE
        """,
    ),
    Case(
        "numpy_loop",
        rewrite.numpy_loop,
        """\
        def advantages(rewards, out):
            # backwards
            for t in reversed(
                range(9)  # steps
            ):
                out[t] = rewards[t]  # HERE
            return out
        """,
        """\
        def advantages(rewards, out):
            # backwards
            _tensors = [isinstance(x, torch.Tensor) for x in (out, rewards,)]
            (out, rewards,) = [x.numpy() if was else x for x, was in zip((out, rewards,), _tensors)]
            for t in reversed(
                range(9)  # steps
            ):
                out[t] = rewards[t]  # HERE
            (out, rewards,) = [torch.as_tensor(x) if was else x for x, was in zip((out, rewards,), _tensors)]
            return out
        """,
    ),
    Case(
        "fewer_rounds",
        lambda code, line: rewrite.fewer_rounds(code, line, 4),
        """\
        for _ in range(
            steps
            * epochs,  # many
        ):
            learn()  # HERE
        """,
        """\
        for _ in range(
            max(1, (steps
            * epochs) // 4),  # many
        ):
            learn()  # HERE
        """,
        again=True,
    ),
    Case(
        "left_out",
        rewrite.left_out,
        """\
        while True:
            # tell
            log(  # much
                loss,  # HERE
            )  # told
            go()
        """,
        """\
        while True:
            # tell
            # much
            # HERE
            pass  # told
            go()
        """,
    ),
    Case(
        "rarer_condition",
        rewrite.rarer_condition,
        """\
        if (
            step  # counted
            % every == 0 and ready
        ):
            log(loss)  # HERE
        """,
        """\
        if (
            step  # counted
            % (every * 10) == 0 and ready
        ):
            log(loss)  # HERE
        """,
        again=True,
    ),
    Case(
        "anomaly_off",
        lambda code, line: rewrite.anomaly_off(code),
        "torch.autograd.set_detect_anomaly(\n    True,  # HERE\n)\nwith torch.autograd.set_detect_anomaly(mode=True):\n    pass\n",
        "torch.autograd.set_detect_anomaly(\n    False,  # HERE\n)\nwith torch.autograd.set_detect_anomaly(mode=False):\n    pass\n",
    ),
    Case(
        "validate_off",
        lambda code, line: rewrite.validate_off(code),
        "torch.distributions.Distribution.set_default_validate_args(\n    True  # HERE\n)\n",
        "torch.distributions.Distribution.set_default_validate_args(\n    False  # HERE\n)\n",
    ),
    Case(
        "threads",
        lambda code, line: rewrite.threads(code, 1),
        "torch.set_num_threads(\n    8  # HERE\n)\n",
        "torch.set_num_threads(\n    1  # HERE\n)\n",
    ),
    Case(
        "renamed",
        lambda code, line: rewrite.renamed(code, {"AsyncVectorEnv": "SyncVectorEnv"}),
        "from gymnasium.vector import (\n    AsyncVectorEnv,  # HERE\n    VectorEnv,\n)\nenvs = f(gym.vector.\\\n    AsyncVectorEnv([a]))\n",
        "from gymnasium.vector import (\n    SyncVectorEnv,  # HERE\n    VectorEnv,\n)\nenvs = f(gym.vector.\\\n    SyncVectorEnv([a]))\n",
    ),
    Case(
        "float32",
        lambda code, line: rewrite.float32(code),
        "x = torch.zeros(\n    3, dtype=torch.float64  # HERE\n).double()  # twice\ny = np.float64(1)\n",
        "x = torch.zeros(\n    3, dtype=torch.float32  # HERE\n).float()  # twice\ny = np.float32(1)\n",
    ),
    Case(
        "number",
        lambda code, line: rewrite.number(code, "batch", 32, lambda _: "256"),
        "model = PPO(\n    batch_size=32,  # HERE\n    n_steps=32,\n)\ndef f(*, batch=32): pass\n",
        "model = PPO(\n    batch_size=256,  # HERE\n    n_steps=32,\n)\ndef f(*, batch=256): pass\n",
    ),
    Case(
        "jitted",
        rewrite.jitted,
        """\
        def count(a):
            # all of them
            return sum(
                a  # HERE
            )
        """,
        """\
        @numba.njit
        def count(a):
            # all of them
            return sum(
                a  # HERE
            )
        """,
    ),
    Case(
        "batched_pushes",
        batching.batched_pushes,
        """\
        class Replay:
            def push(self, state, action):  # one
                self.states[self.at] = state
                self.actions[self.at] = action  # stored
                self.at = (self.at + 1) % 10

        def collect(replay, states, actions):
            for i in range(len(actions)):
                # one by one
                replay.push(
                    states[i].cpu().numpy(),  # HERE
                    actions[i].item(),
                )
                count(i)
        """,
        """\
        class Replay:
            def push(self, state, action):  # one
                self.states[self.at] = state
                self.actions[self.at] = action  # stored
                self.at = (self.at + 1) % 10

            def push_all(self, state, action):
                count = len(state)
                rows = [(self.at + k) % 10 for k in range(count)]
                self.states[rows] = state
                self.actions[rows] = action
                self.at = (self.at + count) % 10

        def collect(replay, states, actions):
            # one by one
            # HERE
            replay.push_all(states, actions)
            for i in range(len(actions)):
                count(i)
        """,
    ),
]

AROUND = """\
# nobody means this:   odd   spacing
class  Other ( object ) :
    x = {  'a':1 ,  # kept
           'b':2 }
    @staticmethod
    def y( ) : return [ 1,2 ,
         3 ]

"""
NEWER = """\
match AROUND_POINT:
    case {"x": x, **rest} if x > 0:  # kept
        pass
    case [1, *_] | None:
        pass
try:
    pass
except* (ValueError, TypeError) as group:
    pass
"""
NEWEST = """\
type Pair[T] = tuple[T, T]  # kept
def first[T: int = bool](pair: Pair[T]) -> T:
    return pair[0]
WORD = f"{f'{", ".join(['a', 'b'])}'!r:>{10}}"
"""


def spaces(text):
    return text


def tabs(text):
    lines = text.split("\n")
    return "\n".join("\t" * ((len(line) - len(line.lstrip(" "))) // 4) + line.lstrip(" ") for line in lines)


def crlf(text):
    return text.replace("\n", "\r\n")


def tabs_and_crlf(text):
    return crlf(tabs(text))


def open_ended(text):
    return text.rstrip("\n")


STYLES = [spaces, tabs, crlf, tabs_and_crlf, open_ended]
PRELUDES = {"plain": "", "among others": AROUND, "new syntax": NEWER}
if sys.version_info >= (3, 13):
    PRELUDES["newest syntax"] = NEWEST


def comments(source):
    tokens = tokenize.generate_tokens(io.StringIO(source, newline="").readline)
    return sorted(token.string for token in tokens if token.type == tokenize.COMMENT)


def files(case, prelude, style):
    """The file before and after. What a case leaves out of its text: imports, and what stands over it."""
    before, after = textwrap.dedent(case.before), textwrap.dedent(case.after)
    place = (IMPORTS + prelude + before).partition(before)[0].count("\n") + 1
    over = ("import numba\n" if case.name == "jitted" else "") + IMPORTS + prelude
    return style(IMPORTS + prelude + before), style(over + after.replace("LINE", str(place)))


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.__name__)
@pytest.mark.parametrize("prelude", PRELUDES.values(), ids=PRELUDES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_rewrite_changes_what_it_means_and_nothing_else(case, prelude, style):
    before, expected = files(case, prelude, style)
    assert is_python(before)
    line = next(k for k, content in enumerate(lines_of(before), 1) if "# HERE" in content)
    after = apply(before, case.rewrite(Code(before), line))
    assert after == expected
    assert is_python(after) and comments(after) == comments(before)
    if not case.again:
        line = next(k for k, content in enumerate(lines_of(after), 1) if "# HERE" in content)
        assert case.rewrite(Code(after), line) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@settings(max_examples=15)
@given(line=st.integers(-1, 40), style=st.sampled_from(STYLES))
def test_on_any_line_a_rewrite_gives_python_or_nothing(case, line, style):
    before, _ = files(case, AROUND, style)
    after = apply(before, case.rewrite(Code(before), line))
    assert is_python(after) and comments(after) == comments(before)


def test_what_python_cannot_read_is_left_alone():
    for source in ("x = (\n", "def f(:\n    x = net(obs)\n", "\x00", "import torch\nx = = 1\n"):
        for case in CASES:
            assert case.rewrite(Code(source), 2) == []


def test_an_edit_that_would_not_parse_is_not_offered():
    source = "import torch\nfor x in y:\n    total += x\n"
    code = Code(source)
    patch = Patch(code)
    patch.after(code.tree.body[1], "return total")  # compiles nowhere but in a function, though it parses
    assert patch.edits() == []
    for nonsense in ("0 +", "for", "x = 1"):
        patch = Patch(code)
        patch.expression(code.tree.body[1].iter, text(nonsense))
        assert patch.edits() == []
    patch = Patch(code)
    patch.expression(code.tree.body[1].iter, text("0"))
    assert apply(source, patch.edits()) == source.replace("in y", "in 0")


def test_an_edit_that_would_lose_a_comment_is_not_offered():
    source = "threads = (\n    8  # as many as cores\n)\n"
    code = Code(source)
    patch = Patch(code)
    patch.expression(code.tree.body[0].value, text("1"))
    assert patch.edits() == []


def test_rewrites_that_do_not_fit():
    torch_only = "import torch\n"
    assert rewrite.no_grad(Code(torch_only + "@torch.no_grad()\ndef f():\n    x = net(y)\n"), 4) == []
    assert rewrite.no_grad(Code(torch_only + "with torch.no_grad():\n    x = net(y)\n"), 3) == []
    assert rewrite.no_grad(Code(torch_only + "if a: x = net(y)\n"), 2) == []
    assert rewrite.no_grad(Code(torch_only + "x = 1; y = net(x)\n"), 2) == []
    assert rewrite.recorded(Code("async def f():\n    return 1\n"), 2) == []
    assert rewrite.recorded(Code("def f():\n    yield 1\n"), 2) == []
    off = "torch.distributions.Distribution.set_default_validate_args(False)\n"
    assert rewrite.validate_off(Code(torch_only + off)) == []
    sometimes = f"{torch_only}if fast:\n    {off}"
    assert apply(sometimes, rewrite.validate_off(Code(sometimes))) == f"{torch_only}\n{off}if fast:\n    {off}"
    assert rewrite.detached(Code("total += loss.item()\n"), 1) == []
    assert rewrite.detached(Code("losses.append(*both)\n"), 1) == []
    assert rewrite.number(Code("log(batch_size=True)\n"), "batch", None, lambda _: "2") == []
    assert rewrite.fewer_rounds(Code("for i in range(1, n):\n    learn()\n"), 2, 4) == []


def test_nested_expressions_are_rewritten_together():
    source = "import torch\nx = (a.double() + torch.tensor([b.double()], dtype=torch.float64)).double()\n"
    assert apply(source, rewrite.float32(Code(source))) == (
        "import torch\nx = (a.float() + torch.tensor([b.float()], dtype=torch.float32)).float()\n"
    )
    wide = "import torch\nπ = ('ä', x.double(), 'ö', y.double())\n"
    assert apply(wide, rewrite.float32(Code(wide))) == wide.replace("double", "float")


def test_names_inside_f_strings_are_changed_or_nothing_is():
    source = "for i in range(3):\n    print(f'{x[i].item()} and {y[i].item():.2f}', x[i].item())\n"
    after = apply(source, rewrite.hoisted_items(Code(source), 2))
    assert is_python(after) and (after == source or ".item()" not in after)


# -- edits by lines --


LINES = st.lists(st.text("ab #\t\x0c\u2028", max_size=5), max_size=8)
ENDINGS = st.sampled_from(["\n", "\r\n"])


@given(LINES, LINES, ENDINGS, st.booleans(), st.booleans())
def test_edits_between_two_texts_turn_one_into_the_other(old, new, newline, closed_before, closed_after):
    before = newline.join(old) + newline * closed_before
    after = newline.join(new) + newline * closed_after
    edits = edits_between(before, after)
    result = apply(before, edits)
    assert lines_of(result) == lines_of(after) or not lines_of(before)
    assert edits_between(result, after) == [] or not lines_of(before)
    assert "\n" not in result.replace("\r\n", "") or "\r\n" not in before
    changed = sum(edit.last - edit.first + 1 + len(edit.lines) for edit in edits)
    assert changed <= len(lines_of(before)) + len(lines_of(after))


@given(LINES, st.data())
def test_edits_of_an_edited_text_move_to_the_original(lines, data):
    """Made one after the other or both at once: the same text."""
    text = "\n".join([*lines, "end"]) + "\n"
    count = len(lines_of(text))
    place = data.draw(st.integers(1, count))
    first = data.draw(st.sampled_from([Edit(place, place, ("x", "y")), Edit(place, place - 1, ("x",)), Edit(place, place, ())]))
    edited = apply(text, [first])
    other = data.draw(st.integers(1, len(lines_of(edited)) + 1))
    insert = other > len(lines_of(edited)) or data.draw(st.booleans())
    second = Edit(other, other - 1, ("z",)) if insert else Edit(other, other, ("z",))
    try:
        moved = to_original(text, [first], [second])
    except Overlap:
        return
    both = lines_of(apply(text, [first, *moved]))
    if not insert or (first.last >= first.first and first.lines):  # inserts at the same place may stand in either order
        assert both == lines_of(apply(edited, [second]))
    else:
        assert sorted(both) == sorted(lines_of(apply(edited, [second])))


def test_inserts_at_one_place_stay_in_order_and_inside_a_changed_range_are_refused():
    assert apply("a\nb\n", [Edit(2, 1, ("x",)), Edit(2, 1, ("y",)), Edit(2, 1, ("x",))]) == "a\nx\ny\nb\n"
    with pytest.raises(Overlap):
        apply("a\nb\nc\n", [Edit(1, 3, ("x",)), Edit(2, 1, ("y",))])
    with pytest.raises(Overlap):
        to_original("a\nb\nc\n", [Edit(2, 2, ())], [Edit(1, 2, ("x",))])
    assert to_original("a\n", [], [Edit(2, 1, ("x",))]) == (Edit(2, 1, ("x",)),)


@pytest.mark.parametrize("before", ["a\r\nb\r\nc\r\n", "a\nb\nc", "a\r\nb\r\nc", "a\x0cb\nb\n\u2028c\n"])
def test_a_diff_applies_whatever_the_line_endings(before, tmp_path):
    after = apply(before, [Edit(2, 1, ("new",)), Edit(3, 3, ("C",))])
    (tmp_path / "f.py").write_bytes(before.encode())
    patch = diff("f.py", before, after).encode()
    subprocess.run(["patch", "--binary", "f.py"], cwd=tmp_path, input=patch, check=True, capture_output=True)
    assert (tmp_path / "f.py").read_bytes() == after.encode()
    subprocess.run(["git", "apply", "-R"], cwd=tmp_path, input=patch, check=True)
    assert (tmp_path / "f.py").read_bytes() == before.encode()


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


@pytest.mark.parametrize(
    "text", ["x = 'é'; y = (1,\r\n 2)\r\nz = [a\n  for a in b]\n", "def f():\n\tif x:\n\t\treturn {'ü': '''a\nb'''}\n", "x = 1"]
)
def test_the_source_of_a_node_is_that_of_ast(text):
    code = Code(text)
    nodes = [node for node in ast.walk(code.tree) if isinstance(node, ast.stmt | ast.expr)]
    assert nodes and all(code.source(node) == ast.get_source_segment(text, node) for node in nodes)

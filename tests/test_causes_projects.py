"""What the first blind run on whole projects got wrong: rules that named the wrong thing, or nothing, or too much."""

import pytest

from hotlap import causes
from hotlap.probe.kinds import FORWARD, STEPPED
from hotlap.probe.timeline import Timeline
from hotlap.record.observed import EnvChain
from tests.causes_scenarios import SCENARIOS
from tests.made_runs import NET, PPO, PPO_COUNTS, make_run

ONE = (EnvChain(("Game",)),)


def diagnosed(folder, stacks, text, shares=PPO, counts=PPO_COUNTS, **options):
    """The causes that are found when the sampler saw these stacks in this file."""
    run = make_run(folder / "r", shares, counts, stacks=stacks, sources={"train.py": text}, **options)
    return causes.diagnose(run).findings


def test_a_search_that_asks_for_the_values_of_states_does_not_evaluate(tmp_path):
    text = "def evaluate(games):\n    return net(planes(games))\n\ndef main():\n    values = evaluate(leaves)\n"
    stack = [("main", "train.py", 5), ("evaluate", "train.py", 2), ("_call_impl", "torch/nn/modules/module.py", 1)]
    shares = PPO | {"collect/act": 0.6, "update/backward": 0.05, "update/loss": 0.05}
    findings = diagnosed(tmp_path, [("collect/act", stack, 2.0, 2.0)], text, shares)
    assert "eval-dominates" not in [finding.cause for finding in findings]


@pytest.mark.parametrize(
    ("loop", "line"),
    [
        ("    for h, d in zip(hidden, done):\n        h, state = self.lstm(h.unsqueeze(0), state)\n", 3),
        ("    for t in range(len(x)):\n        h, state = self.lstm(x[:, t], state)\n", 3),
    ],
)
def test_recurrent_layers_step_by_step_whatever_the_loop_runs_over(loop, line, tmp_path):
    stack = [("states", "train.py", line), ("forward", "torch/nn/modules/rnn.py", 1)]
    findings = diagnosed(
        tmp_path, [("update/loss", stack, 2.0, 2.0)], f"def states(self, x):\n{loop}", PPO | {"update/loss": 0.5}
    )
    assert findings[0].cause == "rnn-seq-loop"


def test_a_tree_that_is_walked_in_the_function_that_loops_over_the_batch(tmp_path):
    text = """\
class SumTree:
    def set(self, idx, pri):
        for i, p in zip(idx, pri):
            j = i
            while j >= 1:
                j //= 2
"""
    findings = diagnosed(tmp_path, [("sample", [("set", "train.py", 6)], 2.0)], text, PPO | {"sample": 0.5})
    assert findings[0].cause == "per-python-tree" and findings[0].where == "train.py:6"


@pytest.mark.parametrize(("over", "found"), [("obs.items()", True), ("range(simulations)", False)])
def test_agents_that_act_one_by_one(over, found, tmp_path):
    text = f"def choose(net, obs):\n    for name, o in {over}:\n        logits = net(o)\n"
    counts = PPO_COUNTS | {"env_steps": 100, "forwards@collect/act": 1_600, "rows@collect/act": 1_600}
    stack = [("choose", "train.py", 3)]
    findings = diagnosed(tmp_path, [("collect/act", stack, 2.0)], text, PPO | {"collect/act": 0.8}, counts, environments=ONE)
    assert ("batch1-inference" in [finding.cause for finding in findings]) == found
    assert not found or "16 agents" in findings[0].evidence[0]


def test_waiting_for_a_process_that_works_is_no_hot_spot(tmp_path):
    text = "def step(self):\n    return [pipe.recv() for pipe in self.pipes]\n"
    stacks = [("collect/wait", [("step", "train.py", 2)], 2.0, 2.0)]
    findings = diagnosed(tmp_path, stacks, text, PPO | {"collect/wait": 0.9, "collect/env_step": 0.0})
    assert "hot-spot" not in [finding.cause for finding in findings]


def test_tables_that_a_library_looks_something_up_in_are_its_own_affair(tmp_path):
    text = "trainer.run()\n"
    inner = [("collect", "lib/tianshou/collector.py", 5), ("loc", "lib/pandas/core.py", 1)]
    stacks = [("collect/store", [("<module>", "train.py", 1), *inner], 2.0)]
    findings = diagnosed(tmp_path, stacks, text, PPO | {"collect/store": 0.5})
    assert "env-pandas-index" not in [finding.cause for finding in findings]


@pytest.mark.parametrize(
    ("code", "per_step", "times"),
    [
        ("agent = SAC()", 1.0, None),  # as a rule
        ("agent = SAC()", 4.0, 4),
        ("agent = DQN()", 4.0, 4),
        ("agent = DQN()", 0.5, 4),
        ("agent = DQN()", 0.125, None),  # fewer than usual, though eight times as many environments would step at once
    ],
)
def test_how_many_updates_are_too_many(code, per_step, times, tmp_path):
    """Eight environments step at once, or more where updates are few."""
    scenario, updates = SCENARIOS["utd"], 64 * per_step
    counts = scenario["counts"] | {"updates": updates, "rows@update/loss": updates * 256, "forwards@update/loss": updates}
    counts |= {"env_steps": 64, "choices": min(8, updates / 4)}
    run = make_run(tmp_path / "r", **scenario | {"counts": counts, "sources": {"train.py": code}})
    found = next((finding for finding in causes.diagnose(run).findings if finding.cause == "utd-high"), None)
    assert (found.parameters["times"] if found else None) == times


def test_wide_layers_for_many_inputs_are_no_luxury(tmp_path):
    wide = {"nets": [NET.__class__("Net", 600_000, 6, {"Linear": 3}, inputs=54, outputs=6, widest=512)]}
    run = make_run(tmp_path / "r", **SCENARIOS["oversized"] | wide)
    assert "oversized-net" not in [finding.cause for finding in causes.diagnose(run).findings]


# -- environments that take turns --


def sample_of(events):
    """What a timeline counts in one window of these events: an environment's number steps, 0 is a network that runs."""
    timeline, log, at = Timeline(0), [], 0
    timeline.open(0)
    for env in events:
        log.append((STEPPED, at, at + 10, env, 1) if env else (FORWARD, at, at + 10, 4, 0))
        at += 20
    return timeline.window(log, at, {}, [], False)


@pytest.mark.parametrize(
    ("events", "choices", "parallel"),
    [
        ([0, 1, 2, 3, 0, 1, 2, 3], 2, 3),  # the network chooses for three environments
        ([1, 2, 3, 1, 2, 3], 2, 3),  # at random
        ([0, 1, 0, 2, 0, 1, 0, 2], 4, 2),  # one environment at a time
        ([0, 1, 0, 1, 0, 2, 0, 2], 4, 0),  # one after another: no two are alive together
    ],
)
def test_environments_that_take_turns_share_a_choice(events, choices, parallel):
    counts = sample_of(events).counts
    assert (counts["choices"], counts.get("parallel_envs", 0)) == (choices, parallel)


RESETS, STEPS = "collect/env_reset", "collect/env_step"


@pytest.mark.parametrize(("stage", "cause"), [(RESETS, "env-slow-reset"), (STEPS, "env-pandas-index")])
def test_tables_that_a_reset_makes_are_no_rows_looked_up(stage, cause, tmp_path):
    text = "class Market:\n    def reset(self):\n        self.table = indicators(read_csv(self.path))\n"
    stack = [("reset", "train.py", 3), ("rolling", "lib/pandas/core.py", 1)]
    findings = diagnosed(tmp_path, [(stage, stack, 2.0)], text, PPO | {stage: 0.5})
    assert findings[0].cause == cause
    assert ("env-pandas-index" in [finding.cause for finding in findings]) == (cause == "env-pandas-index")


def test_a_window_that_is_stepped_through_by_slices_of_one_in_acting_too(tmp_path):
    text = "def forward(self, obs):\n    for t in range(obs.shape[1]):\n        _, h = self.rnn(obs[:, t:t + 1], h)\n"
    stack = [("forward", "train.py", 3), ("forward", "torch/nn/modules/rnn.py", 1)]
    stacks = [("update/loss", stack, 1.0, 1.0), ("collect/act", stack, 1.0, 1.0)]
    findings = diagnosed(tmp_path, stacks, text, PPO | {"update/loss": 0.4, "collect/act": 0.4})
    assert findings[0].cause == "rnn-seq-loop" and findings[0].projected.speedup > 2.2  # acting too


@pytest.mark.parametrize(
    "draw", ["np.random.choice(len(self.data), n, replace=False)", "self.rng.permutation(len(self.data))[:n]"]
)
def test_drawing_without_replacement_from_the_whole_memory(draw, tmp_path):
    text = f"def sample(self, n):\n    picks = {draw}\n"
    findings = diagnosed(tmp_path, [("sample", [("sample", "train.py", 2)], 2.0)], text, PPO | {"sample": 0.5})
    assert findings[0].cause == "deque-sampling" and findings[0].where == "train.py:2"


def test_a_sampler_that_looks_through_its_whole_storage(tmp_path):
    stack = [("main", "train.py", 1), ("_get_stop_and_length", "torchrl/data/replay_buffers/samplers/slice.py", 1)]
    findings = diagnosed(tmp_path, [("sample", stack, 2.0)], "batch = rb.sample()\n", PPO | {"sample": 0.5})
    assert findings[0].cause == "sampler-capacity" and "cache_values" in findings[0].fix


def test_targets_predicted_row_by_row(tmp_path):
    text = "def replay(batch):\n    for state, action in minibatch:\n        target = predict(state)\n"
    stacks = [("advantage", [("replay", "train.py", 3), ("forward", "torch/nn/modules/linear.py", 1)], 2.0)]
    assert diagnosed(tmp_path, stacks, text, PPO | {"advantage": 0.5})[0].cause == "loss-python-loop"


# -- what the third blind set showed --


def test_returns_of_one_environment_after_another_are_no_rows_of_a_minibatch(tmp_path):
    text = """\
def gae(rewards, values):
    for t in reversed(range(len(rewards))):
        running = rewards[t] + values[t] * running

def batch_gae(rewards, values):
    return [gae(rewards[:, n], values[n]) for n in range(rewards.shape[1])]
"""
    stack = [("batch_gae", "train.py", 6), ("gae", "train.py", 3)]
    findings = diagnosed(tmp_path, [("advantage", stack, 2.0)], text, PPO | {"advantage": 0.5})
    assert [finding.cause for finding in findings][:1] == ["gae-loop"]
    assert "loss-python-loop" not in [finding.cause for finding in findings]


def test_settings_named_params_are_no_parameters(tmp_path):
    text = 'for _ in range(params["updates_per_chunk"]):\n    loss = update(batch)\n'
    findings = diagnosed(tmp_path, [("update/loss", [("<module>", "train.py", 2)], 2.0)], text, PPO | {"update/loss": 0.5})
    assert "per-param-loops" not in [finding.cause for finding in findings]


def rising(*stages):
    return lambda i: dict.fromkeys(stages, 1 + i / 4)


@pytest.mark.parametrize(("slower", "found"), [(["update/backward"], True), (["update/backward", "update/loss"], False)])
def test_gradients_that_get_slower_alone_have_a_longer_graph(slower, found, tmp_path):
    """If the loss gets slower as well, there is more to compute."""
    run = make_run(tmp_path / "r", PPO, PPO_COUNTS, windows=16, scale=rising(*slower))
    assert ("graph-retention" in [finding.cause for finding in causes.diagnose(run).findings]) == found


BUS = """\
class Bus:
    def subscribe(self, handler):
        self.handlers.append(handler)

    def publish(self, event):
        for handler in self.handlers:
            handler(event)

class Yard:
    def reset(self):
        self.bus.subscribe(self.moved)

    def step(self, action):
        self.bus.publish(action)
"""


@pytest.mark.parametrize(("taken_off", "cause"), [("", "env-state-leak"), ("        self.handlers.clear()\n", "harder-states")])
def test_handlers_that_an_environment_adds_and_nobody_takes_off(taken_off, cause, tmp_path):
    text = BUS.replace("    def publish", f"    def close(self):\n        pass\n{taken_off}\n    def publish")
    line = next(i for i, code in enumerate(text.splitlines(), 1) if "handler(event)" in code)
    stack = [("main", "main.py", 1), ("step", "train.py", line + 7), ("publish", "train.py", line)]
    findings = diagnosed(tmp_path, [("collect/env_step", stack, 2.0)], text, PPO, windows=16, scale=rising("collect/env_step"))
    assert cause in [finding.cause for finding in findings]
    assert ("env-state-leak" in [finding.cause for finding in findings]) == (cause == "env-state-leak")


@pytest.mark.parametrize(("received", "found"), [(40e6, True), (4e5, False)])
def test_what_comes_back_from_a_pool_that_plays_whole_episodes(received, found, tmp_path):
    counts = {"updates": 16, "forwards@update/loss": 16, "rows@update/loss": 16 * 128, "ipc_received_bytes": received}
    run = make_run(tmp_path / "r", {"collect/wait": 0.8, "update/loss": 0.1, "update/backward": 0.1}, counts, environments=())
    assert ("ipc-payload" in [finding.cause for finding in causes.diagnose(run).findings]) == found


def test_a_logger_that_dumps_saves_no_checkpoint(tmp_path):
    text = "def _on_step(self):\n    self.logger.dump(self.num_timesteps)\n"
    stack = [("_on_step", "train.py", 2), ("dump", "stable_baselines3/common/logger.py", 5)]
    findings = diagnosed(tmp_path, [("log", stack, 2.0)], text, PPO | {"log": 0.4})
    assert next(finding.cause for finding in findings) == "logger-per-step"
    assert "ckpt-replay" not in [finding.cause for finding in findings]


def test_messages_to_workers_are_no_rules_of_a_game(tmp_path):
    text = "class Plates:\n    def step(self, actions):\n        return [c.recv() for c in self.conns]\n"
    stack = [("main", "main.py", 1), ("step", "train.py", 3), ("recv", "multiprocessing/connection.py", 7)]
    findings = diagnosed(tmp_path, [("collect/env_step", stack, 2.0)], text, PPO | {"collect/env_step": 0.5})
    assert "env-python-loop" not in [finding.cause for finding in findings]

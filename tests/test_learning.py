"""The learning check: verdicts on made-up curves, and real scripts held to their losses."""

from dataclasses import replace

import numpy as np
import pytest

from hotlap.core.errors import TargetFailed
from hotlap.experiment import learning
from hotlap.record.curve import Curve
from hotlap.record.investigation import LearningCheck, LearningVerdict, ReturnCheck, TimeRatio
from hotlap.report.learning import learning_lines, learning_table
from hotlap.target import words as targets
from hotlap.target.target import Script, Variant


def curve(final, episodes=200, noise=1.0, seed=0, pace=1.0):
    """Returns rise from 0 to a level; each episode takes 10 steps and some time."""
    rng = np.random.default_rng(seed)
    rise = np.minimum(np.arange(episodes) / (episodes / 2), 1.0)
    returns = final * rise + rng.normal(0, noise, episodes)
    steps = np.arange(1, episodes + 1) * 10.0
    return Curve(tuple(steps), tuple(steps * pace), tuple(returns))


def both(original, changed, **kwargs):
    return [[curve(level, seed=i, **kwargs) for i, level in enumerate(levels)] for levels in (original, changed)]


def test_equal_curves_are_not_worse_and_bad_ones_are():
    same = learning.compare_curves(*both([100, 102, 98], [100, 101, 99]))
    assert same.verdict is LearningVerdict.NOT_WORSE and same.ci95[0] > -same.margin
    worse = learning.compare_curves(*both([100, 102, 98], [60, 62, 58]))
    assert worse.verdict is LearningVerdict.WORSE
    assert worse.difference == pytest.approx(-40, abs=1.5)
    unclear = learning.compare_curves(*both([100, 102, 98], [70, 130, 95]))
    assert unclear.verdict is LearningVerdict.UNCLEAR


def test_all_seeds_worse_is_said_with_numbers():
    unclear = learning.compare_curves(*both([100, 102, 98], [97, 70, 95]))
    (line,) = learning_lines(LearningCheck(returns=unclear))
    assert unclear.verdict is LearningVerdict.UNCLEAR
    assert "learned less on all 3 seeds" in line and f"return {unclear.difference:+.3g}" in line


def test_a_variant_that_made_no_update_is_no_evidence(monkeypatch, tmp_path):
    """Its first update comes later than the time that is left."""
    curves = iter([replace(curve(100), losses=(1.0,)), curve(100)])
    monkeypatch.setattr(learning, "run_curve", lambda *args, **kwargs: next(curves))
    variant = Variant("original", Script("train.py"))
    with pytest.raises(TargetFailed, match=r"made no update in the 13\.0 s"):
        learning.check_returns(variant, variant, tmp_path, 1, seconds=30.0, speedup=1.0)


def test_the_margin_is_a_share_of_what_was_learned():
    result = learning.compare_curves(*both([100, 100], [100, 100]))
    assert result.margin == pytest.approx(0.1 * result.learned, rel=1e-6)
    assert result.learned == pytest.approx(90, abs=5)


def test_time_to_a_level_counts_the_faster_clock():
    slow, fast = curve(100, pace=1.0), curve(100, pace=0.25)
    assert fast.time_to(80) == pytest.approx(slow.time_to(80) / 4, rel=0.05)
    assert slow.time_to(1000) is None


def test_how_much_sooner_a_level_is_reached():
    slow = [curve(100, seed=i, pace=1.0) for i in range(3)]
    fast = [curve(100, seed=i, pace=0.25) for i in range(3)]
    time_ratio = learning.compare_curves(slow, fast).time_ratio
    assert time_ratio.ratio == pytest.approx(4, rel=0.01) and time_ratio.seeds == 3
    assert time_ratio.ci95[0] <= time_ratio.ratio <= time_ratio.ci95[1]


def test_no_episodes_is_no_verdict():
    empty = Curve()
    assert learning.compare_curves([empty], [empty]).verdict is LearningVerdict.UNCLEAR


SCRIPT = """\
import gymnasium, torch
torch.manual_seed(0)
torch.set_num_threads(1)
env = gymnasium.make("CartPole-v1")
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=FACTOR)
obs, _ = env.reset(seed=0)
for step in range(3000):
    logits = net(torch.as_tensor(obs))
    action = int(torch.multinomial(logits.softmax(0).detach(), 1))
    obs, reward, terminated, truncated, _ = env.step(action)
    loss = -logits.log_softmax(0)[action] * reward
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if terminated or truncated:
        obs, _ = env.reset()
"""


def variant(tmp_path, name, factor):
    path = tmp_path / f"{name}.py"
    path.write_text(SCRIPT.replace("FACTOR", factor))
    return Variant(name, Script(str(path)))


@pytest.mark.exact
def test_losses_of_a_real_script(tmp_path):
    base = variant(tmp_path, "base", "0.01")
    same = learning.same_losses(base, variant(tmp_path, "same", "0.1 / 10"), tmp_path / "a")
    assert same.verdict is LearningVerdict.SAME_LOSSES and same.compared == learning.LOSSES
    other = learning.same_losses(base, variant(tmp_path, "other", "0.02"), tmp_path / "b")
    assert other.verdict is LearningVerdict.OTHER_LOSSES and other.difference > learning.CLOSE


@pytest.mark.exact
def test_curves_of_a_real_script(tmp_path):
    curve = learning.run_curve(variant(tmp_path, "base", "0.01"), tmp_path, "curve", 0, steps=1500)
    assert sum(curve.returns) == pytest.approx(curve.steps[-1])  # CartPole gives 1 per step
    assert curve.steps[-1] <= 1500 and curve.losses == ()
    again = learning.run_curve(variant(tmp_path, "base", "0.01"), tmp_path, "again", 0, steps=1500)
    other = learning.run_curve(variant(tmp_path, "base", "0.01"), tmp_path, "other", 1, steps=1500)
    assert again.returns == curve.returns != other.returns


@pytest.mark.exact
def test_a_system_is_held_to_its_losses_and_its_returns(tmp_path):
    slow = targets.variant("snake --preset seed --num-envs 8 --size 6 --updates-per-step 1 --learning-starts 64")
    fast = replace(slow, target=replace(slow.target, config={**slow.target.config, "turbo": True}))
    check = learning.same_losses(slow, fast, tmp_path)
    assert (check.verdict, check.compared, check.difference) == (LearningVerdict.SAME_LOSSES, learning.ITERATIONS, 0)
    other = replace(slow, target=replace(slow.target, config={**slow.target.config, "learning_rate": 0.1}))
    assert learning.same_losses(slow, other, tmp_path).verdict is LearningVerdict.OTHER_LOSSES
    curve = learning.run_curve(fast, tmp_path, "fast", 1, steps=20_000)
    assert curve.steps[-1] >= 20_000 > curve.steps[-1] - 8 * 64 and list(curve.seconds) == sorted(curve.seconds)
    assert len(curve.returns) > 100 and max(curve.returns) > min(curve.returns)


@pytest.mark.parametrize(("seeds", "shown"), [(3, "1.10x (95% 0.90-1.30)"), (1, "1.10x (one seed: no interval)")])
def test_one_seed_has_no_interval(seeds, shown):
    ratio, times = TimeRatio(1.1, (0.9, 1.3), seeds), ((2.2,) * seeds, (2.0,) * seeds)
    returns = ReturnCheck(LearningVerdict.UNCLEAR, seeds, 100.0, level=1.0, time_to_level=times, time_ratio=ratio)
    assert any(shown in cell for row in learning_table(LearningCheck(returns=returns)).rows for cell in row)

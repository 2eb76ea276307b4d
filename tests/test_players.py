"""Games of several players: advantages in turn-based games, past policies, ratings, simultaneous agents."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hotlap
from hotlap.core.clock import StageClock
from hotlap.envs.vector import make_gym
from hotlap.train import ppo, rating, selfplay
from hotlap.train.acting import AgainstPast
from hotlap.train.advantage import gae, gae_of_seats, seats_in_torch
from hotlap.train.flat import views
from hotlap.train.gradients import forward
from hotlap.train.selfplay import Opponents
from tests.minibatches import minibatches

SMALL = ppo.Config(num_envs=6, horizon=12, batch_size=16, epochs=2, hidden=(16, 16), total_steps=10_000, workers=0)

# -- advantages --


def slow_gae_of_seats(reward, value, done, seat, last, gamma, lam):
    """By the definition: each seat's decisions as an episode of its own."""
    steps, envs, seats = reward.shape
    advantage, known = np.zeros((steps, envs)), np.zeros((steps, envs), bool)
    for n in range(envs):
        for s in range(seats):
            games, begin = [], 0
            for t in range(steps):
                if done[t, n]:
                    games.append((begin, t + 1, done[t, n], last[t, n]))
                    begin = t + 1
            games.append((begin, steps, 0, seat[steps, n]))
            for begin, end, how, judged in games:
                decisions = [t for t in range(begin, end) if seat[t, n] == s]
                follows = None  # (value, advantage) of the seat's next decision
                for t in reversed(decisions):
                    later = [u for u in decisions if u > t]
                    until = later[0] if later else end
                    gained = reward[t:until, n, s].sum()
                    if later:
                        following, known[t, n] = follows, True
                    elif how == 1 or (how == 2 and judged == s):
                        following, known[t, n] = (0.0, 0.0), True
                    elif how == 0 and judged == s:
                        following, known[t, n] = (value[steps, n], 0.0), True
                    if known[t, n]:
                        advantage[t, n] = gained + gamma * following[0] - value[t, n] + gamma * lam * following[1]
                    follows = (value[t, n], advantage[t, n])
    return advantage, known


@settings(max_examples=40)
@given(st.integers(1, 14), st.integers(1, 4), st.integers(2, 4), st.integers(0, 1000), st.floats(0, 1), st.floats(0, 1))
def test_gae_of_seats_by_definition(steps, envs, seats, seed, gamma, lam):
    rng = np.random.default_rng(seed)
    arrays = (
        rng.normal(size=(steps, envs, seats)).astype(np.float32),
        rng.normal(size=(steps + 1, envs)).astype(np.float32),
        rng.choice([0, 0, 0, 1, 2], (steps, envs)).astype(np.float32),
        rng.integers(0, seats, (steps + 1, envs)).astype(np.int8),
        rng.integers(0, seats, (steps, envs)).astype(np.int8),
    )
    advantage, known = slow_gae_of_seats(*arrays, gamma, lam)
    tensors = [torch.from_numpy(array) for array in arrays]
    empty = torch.zeros(steps, envs), torch.zeros(steps, envs, dtype=torch.bool)
    for result in (gae_of_seats(*tensors, gamma, lam), seats_in_torch(*tensors, gamma, lam, *empty)):
        np.testing.assert_array_equal(result[1].numpy(), known)
        np.testing.assert_allclose(result[0].numpy(), advantage, rtol=1e-4, atol=1e-4)


def test_gae_of_seats_by_hand():
    """Seats 0, 1, 0; then the game ends: seat 0 wins 1, seat 1 loses 1. Without discount: what was won less the value."""
    reward = torch.tensor([[[0.0, 0.0]], [[0.0, 0.0]], [[1.0, -1.0]]])
    value = torch.tensor([[0.2], [0.3], [0.5], [9.0]])
    done, seat = torch.tensor([[0.0], [0.0], [1.0]]), torch.tensor([[0], [1], [0], [0]], dtype=torch.int8)
    advantage, known = gae_of_seats(reward, value, done, seat, torch.zeros(3, 1, dtype=torch.int8), 1.0, 1.0)
    assert advantage[:, 0].tolist() == pytest.approx([0.8, -1.3, 0.5]) and known.all()


def test_gae_of_one_seat_is_plain_gae():
    rng = torch.Generator().manual_seed(0)
    reward, value = torch.randn(9, 5, generator=rng), torch.randn(10, 5, generator=rng)
    done = (torch.rand(9, 5, generator=rng) < 0.3).float()
    seat, last = torch.zeros(10, 5, dtype=torch.int8), torch.zeros(9, 5, dtype=torch.int8)
    advantage, known = gae_of_seats(reward[..., None], value, done, seat, last, 0.9, 0.8)
    torch.testing.assert_close(advantage, gae(reward, value, done, 0.9, 0.8))
    assert known.all()


# -- a game of three seats --


class Race(gymnasium.Env):
    """Three seats in turn choose to step (2) or not (0, illegal: 1); after three rounds who stepped most often wins."""

    observation_space = gymnasium.spaces.Box(0, 9, (4,))
    action_space = gymnasium.spaces.Discrete(3)
    seats = 3

    def __init__(self, limit=99):
        self.limit = limit

    def reset(self, *, seed=None, options=None):
        self.place, self.time = [0, 0, 0], 0
        return self._observe(), self._info()

    def step(self, action):
        assert action != 1, "an illegal action"
        seat = self.time % 3
        self.place[seat] += int(action == 2)
        self.time += 1
        over = self.time == 9
        rewards = np.array([(p == max(self.place)) - 0.5 for p in self.place], np.float32) * over
        cut = not over and self.time == self.limit
        return self._observe(), float(rewards[seat]), over, cut, {**self._info(), "rewards": rewards}

    def _observe(self):
        return np.array([self.time % 3, *self.place], np.float32)

    def _info(self):
        return {"seat": self.time % 3, "action_mask": np.array([1, 0, 1])}


def test_each_seat_has_its_own_trajectory():
    config = replace(SMALL, opponents=0)
    env = make_gym(Race, 6, seed=0, depth=13)
    state = ppo.start(config, env)
    metrics = ppo.Metrics()
    ppo.collect(state, config, env, StageClock(), metrics)
    rollout = state.rollout
    assert rollout.in_place and rollout.turns is not None
    assert rollout.turns.seat[:, 0].tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
    assert rollout.obs[:, 0, 0].tolist() == rollout.turns.seat[:, 0].tolist()  # a seat sees the world as its own
    ppo.compute_advantages(state, config)
    # The second game has begun: seats 0, 1, 2 have decided once, and only seat 0 is judged afterwards.
    assert rollout.valid[:, 0].tolist() == [True] * 10 + [False, False]
    assert metrics.episodes["length"] == [9.0] * 6
    batches = minibatches(rollout, config, torch.Generator(), 0.0, state.gradient)
    learned = sum(len(part.advantage) for batch in batches for part in batch)
    assert learned == 60 // 16 * 16


def test_a_truncated_game_bootstraps_from_the_next_seat():
    config = replace(SMALL, opponents=0, horizon=4, gamma=0.9)
    env = make_gym(lambda: Race(limit=4), 2, seed=0, depth=5)
    state = ppo.start(config, env)
    ppo.collect(state, config, env, StageClock(), ppo.Metrics())
    rollout = state.rollout
    assert rollout.done[:, 0].tolist() == [0, 0, 0, 2] and rollout.turns.last[3, 0] == 1
    last = torch.tensor([[1.0, *(rollout.obs[3, 0, 1:] + torch.tensor([float(rollout.action[3, 0] == 2), 0, 0])).tolist()]])
    with torch.inference_mode():
        assert rollout.turns.rewards[3, 0, 1] == pytest.approx(0.9 * float(state.net(last)[1]))
    ppo.compute_advantages(state, config)
    assert rollout.valid[:, 0].tolist() == [True, True, False, False]  # seat 0: its next move; seat 1: judged; others: not


def test_past_policies_play_but_are_not_learned_from():
    config = replace(SMALL, opponents=2, opponent_share=0.5, opponent_every=1)
    env = make_gym(Race, 6, seed=0, depth=13)
    state = ppo.start(config, env)
    metrics = ppo.iterate(state, config, env, StageClock())
    own = state.opponents.learner(state.rollout.turns.seat[:-1])
    assert own[:, :3].all()  # against itself
    assert [int(column.sum()) for column in own[:, 3:].T] == [4, 4, 4]  # one seat of three
    assert not state.rollout.valid[~own].any()
    assert metrics.sums["score_against_past"][1] == 3
    for _ in range(4):
        ppo.iterate(state, config, env, StageClock())
    assert len(state.opponents.past) == 2
    first = ppo.start(config, env).flat
    assert torch.equal(state.opponents.past[0], first.data)  # the oldest stays
    assert state.opponents.iterations == [0, 5]
    state.opponents.flat.data.zero_()
    state.opponents.draw(0, 7)
    assert any(torch.equal(state.opponents.flat.data, past) for past in state.opponents.past)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_past_policies_span_the_whole_training(size):
    pool = Opponents(lambda obs: obs, torch.nn.Parameter(torch.zeros(1)), size, 0.5, 4, 2)
    for number in range(200):
        pool.add(torch.tensor([float(number)]), 10 * number)
        assert [10 * int(past) for past in pool.past] == pool.iterations and len(pool.past) == min(size, number + 1)
        assert pool.iterations[-1] == 10 * number
    kept = {1: [1990], 2: [0, 1990], 3: [0, 1280, 1990], 8: [0, 320, 640, 960, 1280, 1600, 1920, 1990]}
    assert pool.iterations == kept[size]


def test_past_policies_are_put_in_their_seats_only():
    """A past policy that always takes action 0 against a learner that always takes action 2."""
    config = replace(SMALL, opponents=1, opponent_share=0.5)
    env = make_gym(Race, 6, seed=0, depth=13)
    state = ppo.start(config, env)
    assert isinstance(state.actor, AgainstPast)
    for vector, favourite in ((state.opponents.past[0], 0), (state.flat.data, 2)):
        vector.zero_()
        dict(zip(state.net.parameters(), views(state.net, vector), strict=True))[state.net.action.bias][favourite] = 50.0
    ppo.collect(state, config, env, StageClock(), ppo.Metrics())
    own = state.opponents.learner(state.rollout.turns.seat[:-1])
    assert (state.rollout.action[own] == 2).all() and (state.rollout.action[~own] == 0).all()
    assert 0 < (~own).sum() < own.sum()


def test_it_learns_to_win_and_is_rated():
    config = replace(SMALL, num_envs=32, horizon=36, batch_size=128, total_steps=30_000, learning_rate=3e-3)
    env = make_gym(Race, 32, seed=0, depth=37)
    state = ppo.start(config, env)
    before = ppo.evaluate(state, make_gym(Race, 60, seed=1), 3).rating
    while state.env_steps < config.total_steps:
        ppo.iterate(state, config, env, StageClock())
    played = ppo.evaluate(state, make_gym(Race, 60, seed=1), 3)
    assert played["score"].mean() > 0.8  # always stepping cannot lose; who also always steps draws
    assert len(played["score"]) == 120  # against two bots
    assert played.rating > max(before, 1100)


def test_a_resumed_run_has_its_past_policies():
    config = replace(SMALL, opponents=3, opponent_every=1)
    clock = StageClock()
    envs = [make_gym(Race, 6, seed=0, depth=13) for _ in range(2)]
    original, other = (ppo.start(config, env) for env in envs)
    for _ in range(3):
        ppo.iterate(original, config, envs[0], clock)
    arrays, numbers = ppo.save_state(original, envs[0])
    ppo.load_state(other, envs[1], {name: np.array(array) for name, array in arrays.items()}, numbers)
    assert len(other.opponents.past) == len(original.opponents.past) == 3
    assert all(torch.equal(a, b) for a, b in zip(other.opponents.past, original.opponents.past, strict=True))
    assert other.opponents.iterations == original.opponents.iterations == [0, 2, 3]
    assert other.iterations == 3 and torch.equal(other.flat, original.flat)


def test_seats_in_groups_of_workers():
    config = replace(SMALL, opponents=2, opponent_share=0.5, opponent_every=1, async_factor=2)
    env = make_gym(Race, 6, seed=0, workers=2, async_factor=2, depth=13)
    state = ppo.start(config, env)
    for _ in range(2):
        metrics = ppo.iterate(state, config, env, StageClock())
    assert state.opponents.learner(state.rollout.turns.seat[:-1])[:, :3].all()
    assert not state.rollout.valid[~state.opponents.learner(state.rollout.turns.seat[:-1])].any()
    assert metrics.sums["score_against_past"][1] > 0
    env.close()


def test_a_registered_game_keeps_its_seats():
    gymnasium.register("Race-v0", entry_point=Race)
    try:
        assert make_gym("Race-v0", 2).env_spec.seats == 3
    finally:
        del gymnasium.registry["Race-v0"]


# -- ratings --


def test_bots_are_rated_once(monkeypatch):
    seeds, play, ratings = [], rating.play, rating.BotRatings()

    def counted(env, seed, *players):
        seeds.append(seed)
        return play(env, seed, *players)

    monkeypatch.setattr(rating, "play", counted)
    env = make_gym(Race, 6, seed=0)
    bots = rating.bots_of(env.game)
    rated = [rating.rate(env, seed, bots["first"], bots, ratings).rating for seed in (3, 3, 4)]
    assert seeds == [3] * 5 + [4] * 3  # two bots, and before that the second against the first
    assert rated[0] == rated[1]


def test_ratings():
    wins = np.array([1.0] * 75 + [0.0] * 25)
    # 75% against a bot of 1000: 400 * log10(3) more, but for the one drawn game.
    assert rating.rating({"random": wins}, {"random": 1000.0}) == pytest.approx(1000 + 400 * np.log10(75.5 / 25.5))
    assert rating.rating({"random": np.ones(10)}, {"random": 1000.0}) < 2000
    assert rating.rating({"random": np.full(50, 0.5)}, {"random": 1000.0}) == pytest.approx(1000)
    both = rating.rating({"random": wins, "strong": 1 - wins}, {"random": 1000.0, "strong": 1400.0})
    assert 1190 < both < 1210  # by symmetry halfway
    assert float(selfplay.score(torch.tensor([1.0, 0.0, 2.0, 1.0]), torch.tensor(0))) == pytest.approx((0.5 + 1 + 0) / 3)


# -- PettingZoo --


def test_a_turn_based_game_of_pettingzoo():
    pytest.importorskip("pygame")
    env = make_gym("pettingzoo/tictactoe_v3", 4, seed=0)
    obs, info = env.reset()
    assert obs.shape == (4, 3, 3, 2) and env.env_spec.seats == 2
    rng = np.random.default_rng(0)
    seats, results = [], []
    for _ in range(60):
        seats.append(info["seat"][0])
        legal = info["action_mask"]
        assert (legal.sum(1) == 9 - obs.reshape(4, -1).sum(1)).all()
        *_, info = step = env.step((rng.random(legal.shape) * legal).argmax(1))
        obs = step[0]
        if "_final_info" in info:
            results += info["final_info"]["returns"][info["_final_info"]].tolist()
    assert {0, 1} == set(seats)
    assert results and all(sum(result) == 0 for result in results)  # what one wins the other loses
    env.close()


def test_a_game_that_pettingzoo_does_not_have():
    for name in ("nothing_v1", "../x"):
        with pytest.raises(ValueError, match="PettingZoo has no game"):
            make_gym(f"pettingzoo/{name}", 2)


def test_simultaneous_agents():
    pytest.importorskip("pygame")
    pytest.importorskip("Box2D")
    config = replace(SMALL, num_envs=2, horizon=8)
    env = make_gym("pettingzoo/multiwalker_v9", 2, seed=0, depth=9)
    assert env.num_envs == 6 and env.env_spec.agents == 3
    state = ppo.start(config, env)
    ppo.iterate(state, config, env, StageClock())
    assert state.env_steps == 48 and torch.isfinite(state.flat).all()
    env.close()


class Duel:
    """Two agents; agent 1 leaves after two steps, the episode ends after four."""

    possible_agents = ("a", "b")

    def observation_space(self, agent):
        return gymnasium.spaces.Box(-9, 9, (1,))

    def action_space(self, agent):
        return gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.time, self.agents = 0, ["a", "b"]
        return {agent: np.zeros(1, np.float32) for agent in self.agents}, {}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self.time += 1
        acted = list(self.agents)
        ended = {agent: self.time == 4 or (agent == "b" and self.time == 2) for agent in acted}
        self.agents = [agent for agent in acted if not ended[agent]]
        seen = {agent: np.full(1, self.time, np.float32) for agent in acted}
        return seen, dict.fromkeys(acted, 1.0), ended, dict.fromkeys(acted, False), {}

    def close(self):
        pass


def test_an_agent_that_leaves_early_waits():
    from hotlap.envs.pettingzoo import SimultaneousEnv

    config = replace(SMALL, num_envs=2, horizon=8)
    env = make_gym(lambda: SimultaneousEnv(Duel()), 2, seed=0, depth=9)
    state = ppo.start(config, env)
    metrics = ppo.iterate(state, config, env, StageClock())
    assert state.rollout.valid[:, 0].all()
    assert state.rollout.valid[:, 1].tolist() == [True, True, False, False] * 2
    assert state.rollout.done[:, 1].tolist() == [0, 1, 1, 1, 0, 1, 1, 1]  # who waits begins anew
    assert sorted(metrics.episodes["return"]) == [2.0] * 4 + [4.0] * 4


@pytest.mark.parametrize("memory", ["lstm", "attention"])
def test_the_memory_of_a_waiting_agent_is_cleared(memory):
    from hotlap.envs.pettingzoo import SimultaneousEnv

    config = replace(SMALL, num_envs=2, horizon=8, batch_size=32, memory=memory, learning_rate=0.0)
    env = make_gym(lambda: SimultaneousEnv(Duel()), 2, seed=0, depth=9)
    state = ppo.start(config, env)
    ppo.collect(state, config, env, StageClock(), ppo.Metrics())
    ppo.compute_advantages(state, config)
    ((batch,),) = minibatches(state.rollout, config, torch.Generator(), 0.0, state.gradient)
    _, value = forward(state.net, batch)
    acted = batch.weight > 0
    assert acted.sum() == 24  # of 32: two agents wait for half of the time
    torch.testing.assert_close(value[acted], batch.value[acted])
    alone, _ = state.net(torch.zeros(1, 1))[1:]  # a first observation, with nothing to remember
    torch.testing.assert_close(state.rollout.value[4, 1], alone[0])
    assert state.gradient.modules


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"memory": "lstm"}, "memory does not work"), ({"normalize_reward": True}, "normalize-reward does not")],
)
def test_what_does_not_work_in_turn_based_games(changes, message):
    with pytest.raises(ValueError, match=message):
        ppo.start(replace(SMALL, batch_size=24, **changes), make_gym(Race, 6))


# -- kernels --


@pytest.mark.parametrize(
    ("game", "changes"),
    [
        ("connect4", {"net": "mlp", "opponents": 2, "opponent_share": 0.5, "opponent_every": 1}),
        ("connect4", {"net": "auto", "opponents": 0}),
        ("predators", {"net": "mlp"}),
        ("predators", {"net": "mlp", "memory": "gru", "batch_size": 48}),
    ],
)
def test_a_kernel_teaches_what_its_reference_does(game, changes):
    """Seats, masks, rewards per seat and agents that leave come through the rings in both: the same parameters to the bit."""
    config = replace(SMALL, epochs=1, **changes)
    learned = []
    for turbo in (True, False):
        env = hotlap.make_vec(game, 6, turbo=turbo, seed=0, depth=13)
        state = ppo.start(config, env)
        assert state.rollout.in_place
        for _ in range(3):
            ppo.iterate(state, config, env, StageClock())
        learned.append(state.flat.detach().clone())
        env.close()
    assert torch.equal(*learned) and torch.isfinite(learned[0]).all()


@pytest.mark.parametrize("game", ["connect4", "predators"])
def test_several_players_resume_to_the_bit(game):
    config = replace(SMALL, net="mlp", opponents=2, opponent_share=0.5, opponent_every=1)
    envs = [hotlap.make_vec(game, 6, seed=0, depth=13) for _ in range(2)]
    whole, resumed = (ppo.start(config, env) for env in envs)
    for _ in range(2):
        ppo.iterate(whole, config, envs[0], StageClock())
    arrays, numbers = ppo.save_state(whole, envs[0])
    ppo.load_state(resumed, envs[1], {name: np.array(array) for name, array in arrays.items()}, numbers)
    for state, env in zip((whole, resumed), envs, strict=True):
        for _ in range(2):
            ppo.iterate(state, config, env, StageClock())
    assert torch.equal(whole.flat, resumed.flat) and whole.episodes == resumed.episodes

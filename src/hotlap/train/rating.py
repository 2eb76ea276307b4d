"""How well a policy plays a turn-based game: its score against fixed bots, and a rating from them."""

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from torch import Tensor

from hotlap.record.episodes import POLICY, Episode
from hotlap.train.evaluation import ActionLog, Played, joined
from hotlap.train.selfplay import score

ANCHOR = 1000.0  # rating of a player that moves at random
ELO_SCALE = 400.0  # a lead of this much means ten times the odds of winning
CONFIDENCE = 1.959964  # standard errors to either side of a 95% interval

Bot = Callable[[NDArray[Any], NDArray[np.bool_], np.random.Generator], NDArray[np.int64]]


def play_at_random(obs: NDArray[Any], mask: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    chosen: NDArray[np.int64] = (rng.random(mask.shape) * mask).argmax(1)
    return chosen


def play_the_first(obs: NDArray[Any], mask: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    chosen: NDArray[np.int64] = mask.argmax(1)
    return chosen


def bots_of(game: Any) -> dict[str, Bot]:
    """Fixed players of a game: at random, the first legal move, and the game's own `bots`."""
    return {"random": play_at_random, "first": play_the_first, **getattr(game, "bots", {})}


def as_bot(choose: Callable[[Tensor, Tensor], Tensor], device: torch.device) -> Bot:
    """A network's best moves, as a player."""

    def best(obs: NDArray[Any], mask: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
        moves: NDArray[np.int64] = choose(torch.from_numpy(obs).to(device), torch.from_numpy(mask).to(device)).cpu().numpy()
        return moves

    return best


def play(env: Any, seed: int, policy: Bot, bot: Bot, name: str = "bot", options: dict[str, Any] | None = None) -> Played:
    """One game in each environment: `policy` in seat i % seats of game i, `bot` in the others. Return, length, score, metrics.

    Of metrics that a game has for each seat (`metrics_by_seat`), the policy's own.
    """
    obs, info = env.reset(seed=seed, options=options)
    rng = np.random.default_rng(seed)
    seats = env.env_spec.seats
    policy_seat = np.arange(env.num_envs) % seats
    result = {column: np.zeros(env.num_envs) for column in ("return", "length", "score")}
    metrics = {metric: np.zeros(env.num_envs) for metric in env.env_spec.metrics}
    returns = np.zeros((env.num_envs, seats))
    waiting = np.ones(env.num_envs, bool)
    taken = ActionLog()
    while waiting.any():
        mask = info.get("action_mask")
        mask = np.ones((env.num_envs, env.env_spec.choices), bool) if mask is None else mask
        policy_moves = info["seat"] == policy_seat
        action = np.zeros(env.num_envs, np.int64)
        for player, rows in ((policy, policy_moves), (bot, ~policy_moves)):
            if rows.any():
                action[rows] = player(obs[rows], mask[rows], rng)
        taken.add(action)
        obs, _, _, _, info = env.step(action)
        if "_final_info" in info:
            first = info["_final_info"] & waiting
            waiting &= ~first
            final = info["final_info"]
            returns[first], result["length"][first] = final["returns"][first], final["length"][first]
            for metric, values in metrics.items():
                values[first] = final[metric][first]
    result["return"] = returns[np.arange(env.num_envs), policy_seat]
    result["score"] = score(torch.as_tensor(returns), torch.as_tensor(policy_seat).long()).double().numpy()
    episodes = tuple(
        Episode(
            number=i,
            seed=seed + i,
            actions=taken.of(i, int(result["length"][i])),
            returns=tuple(returns[i].tolist()),
            players=tuple(POLICY if seat == policy_seat[i] else name for seat in range(seats)),
            metrics={metric: (float(values[i]),) for metric, values in metrics.items()},
            score=float(result["score"][i]),
            reset_options=options,
        )
        for i in range(env.num_envs)
    )
    by_seat = getattr(getattr(env.game, "unwrapped", env.game), "metrics_by_seat", {})
    for metric, names in by_seat.items():
        own = np.stack([metrics.pop(column) for column in names])
        metrics[metric] = own[policy_seat, np.arange(env.num_envs)]
    result |= metrics
    return Played(result, episodes, {name: result})


class BotRatings:
    """The ratings of a game's bots, from games against playing at random, which are played once for each seed and number."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], dict[str, float]] = {}

    def of(self, env: Any, seed: int, bots: dict[str, Bot]) -> dict[str, float]:
        known = self._known.setdefault((seed, env.num_envs), {"random": ANCHOR})
        for name, bot in bots.items():
            if name not in known:
                known[name] = rating({"random": play(env, seed, bot, bots["random"])["score"]}, known)
        return known


def rate(env: Any, seed: int, policy: Bot, bots: dict[str, Bot], ratings: BotRatings) -> Played:
    """Play against every bot: all games, and the rating, where playing at random is 1000."""
    known = ratings.of(env, seed, bots)
    games = [play(env, seed, policy, bot, name) for name, bot in bots.items()]
    return joined(games, rating({name: game["score"] for name, game in zip(bots, games, strict=True)}, known))


def rating(scores: dict[str, NDArray[Any]], bots: dict[str, float]) -> float:
    """The rating at which these scores (of games against bots of known rating) are the expected ones.

    One drawn game against each bot is added, so that a player that always wins has a finite rating.
    """

    def surplus(candidate: float) -> float:
        return sum(
            float(np.sum(played)) + 0.5 - (len(played) + 1) / (1 + 10 ** ((bots[name] - candidate) / ELO_SCALE))
            for name, played in scores.items()
        )

    return float(brentq(surplus, ANCHOR - 20 * ELO_SCALE, ANCHOR + 20 * ELO_SCALE))


def score_interval(scores: NDArray[Any]) -> tuple[float, float]:
    """95% interval of a mean score (Wilson): unlike a bootstrap it is not a point where all games were won."""
    n, mean, z = len(scores), float(np.mean(scores)), CONFIDENCE
    middle = (mean + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)

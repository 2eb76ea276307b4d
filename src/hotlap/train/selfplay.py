"""Self-play in turn-based games: past policies as opponents, and a rating against fixed bots.

In most games every seat is played, and learned from, by the present policy. In some (`opponent_share`) one seat is, another
in each game, and the others are played by a past policy, drawn anew for each iteration.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from torch import Tensor, nn

ANCHOR = 1000.0  # rating of a player that moves at random
ELO_SCALE = 400.0  # a lead of this much means ten times the odds of winning

Bot = Callable[[NDArray[Any], NDArray[np.bool_], np.random.Generator], NDArray[np.int64]]


class Opponents:
    """Past policies. `net` is a network like the learner's, of which `flat` are all parameters."""

    def __init__(self, net: nn.Module, flat: nn.Parameter, size: int, share: float, num_envs: int, seats: int) -> None:
        self.net, self.flat, self.size = net, flat, size
        self.past: list[Tensor] = []
        self._against = np.arange(num_envs) >= round((1 - share) * num_envs)  # games against a past policy
        self._seat = np.arange(num_envs) % seats  # the learner's seat in those

    def add(self, flat: Tensor) -> None:
        """Keep the present policy; the oldest but the first goes, so that the pool spans the whole training."""
        self.past.append(flat.detach().clone())
        if len(self.past) > self.size:
            del self.past[1]

    def draw(self, seed: int, iteration: int) -> None:
        """Draw the past policy that plays in this iteration."""
        chosen = np.random.default_rng([seed, iteration]).integers(len(self.past))
        self.flat.data.copy_(self.past[chosen])

    def learner(self, seat: NDArray[np.int8], rows: slice = slice(None)) -> NDArray[np.bool_]:
        """Which decisions [..., rows] are the present policy's."""
        learns: NDArray[np.bool_] = ~self._against[rows] | (seat == self._seat[rows])
        return learns

    def scores(self, returns: NDArray[Any], ended: NDArray[np.bool_], rows: slice) -> list[float]:
        """Of games that ended, against a past policy: 1 where the learner won, 0 where it lost."""
        seats = self._seat[rows]
        return [score(returns[i], int(seats[i])) for i in np.flatnonzero(ended & self._against[rows])]


def score(returns: NDArray[Any], seat: int) -> float:
    """1 for a win, 0 for a loss, by how many of the other seats were beaten; a tie is half a win."""
    others = np.delete(returns, seat)
    return float(np.mean(np.where(returns[seat] > others, 1.0, np.where(returns[seat] == others, 0.5, 0.0))))


# -- bots and ratings --


def play_at_random(obs: NDArray[Any], mask: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    chosen: NDArray[np.int64] = (rng.random(mask.shape) * mask).argmax(1)
    return chosen


def play_the_first(obs: NDArray[Any], mask: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    chosen: NDArray[np.int64] = mask.argmax(1)
    return chosen


def bots_of(game: Any) -> dict[str, Bot]:
    """Fixed players of a game: at random, the first legal move, and the game's own `bots`."""
    return {"random": play_at_random, "first": play_the_first, **getattr(game, "bots", {})}


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


def play(env: Any, seed: int, policy: Bot, bot: Bot) -> dict[str, NDArray[np.float64]]:
    """One game in each environment: `policy` in seat i % seats of game i, `bot` in the others. Return, length and score."""
    obs, info = env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    policy_seat = np.arange(env.num_envs) % env.env_spec.seats
    result = {name: np.zeros(env.num_envs) for name in ("return", "length", "score")}
    waiting = np.ones(env.num_envs, bool)
    while waiting.any():
        mask = info.get("action_mask")
        mask = np.ones((env.num_envs, env.env_spec.choices), bool) if mask is None else mask
        policy_moves = info["seat"] == policy_seat
        action = np.zeros(env.num_envs, np.int64)
        for player, rows in ((policy, policy_moves), (bot, ~policy_moves)):
            if rows.any():
                action[rows] = player(obs[rows], mask[rows], rng)
        obs, _, _, _, info = env.step(action)
        if "_final_info" in info:
            first = info["_final_info"] & waiting
            waiting &= ~first
            for i in np.flatnonzero(first):
                returns = info["final_info"]["returns"][i]
                result["return"][i], result["score"][i] = returns[policy_seat[i]], score(returns, int(policy_seat[i]))
                result["length"][i] = info["final_info"]["length"][i]
    return result


def rate(env: Any, seed: int, policy: Bot, bots: dict[str, Bot]) -> dict[str, NDArray[np.float64]]:
    """Play against every bot: all games, and the rating, where playing at random is 1000."""
    known = {"random": ANCHOR}
    for name, bot in bots.items():
        if name != "random":
            known[name] = rating({"random": play(env, seed, bot, bots["random"])["score"]}, known)
    games = {name: play(env, seed, policy, bot) for name, bot in bots.items()}
    results = {column: np.concatenate([game[column] for game in games.values()]) for column in ("return", "length", "score")}
    return {**results, "rating": np.array([rating({name: game["score"] for name, game in games.items()}, known)])}


def as_bot(choose: Callable[[Tensor, Tensor], Tensor], device: torch.device) -> Bot:
    """A network's best moves, as a player."""

    def best(obs: NDArray[Any], mask: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
        moves: NDArray[np.int64] = choose(torch.from_numpy(obs).to(device), torch.from_numpy(mask).to(device)).cpu().numpy()
        return moves

    return best

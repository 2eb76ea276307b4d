import random
import time
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F

from league.boards import Boards
from league.players import League, Player

cfg = SimpleNamespace(games=128, horizon=16, epochs=4, minibatch=512, gamma=1.0, lam=0.9, clip=0.2, lr=5e-4,
                      ent=0.01, league=8, snapshot_every=40, eval_every=150, iterations=20_000, seed=9)


class Match:
    """Learner plays +1, somebody from the league plays -1 and answers inside step()."""

    def __init__(self, n):
        self.boards, self.n = Boards(n), n
        self.lengths = [0] * n
        self.finished = []

    def begin(self, rival):
        self.boards.clear(np.ones(self.n, bool))
        for i in np.flatnonzero(np.random.rand(self.n) < 0.5):
            self.boards.cells[i, np.random.randint(36)] = -1
        self.rival = rival
        self.lengths = [0] * self.n

    def step(self, where):
        b = self.boards
        everyone = np.ones(self.n, bool)
        won, full = b.put(where, 1, everyone)
        live = ~(won | full)
        reply, _, _ = self.rival.move(b.planes(-1), b.free() | ~live[:, None])
        lost, full2 = b.put(reply, -1, live)
        reward = won.astype(np.float32) - lost.astype(np.float32)
        done = won | full | lost | full2
        for i in range(self.n):
            self.lengths[i] += 1
            if done[i]:
                self.finished.append((float(reward[i]), self.lengths[i]))
                self.lengths[i] = 0
        b.clear(done)
        return reward, done


def gather(match, player):
    T, n = cfg.horizon, cfg.games
    X, M = np.zeros((T, n, 72), np.float32), np.zeros((T, n, 36), bool)
    A = np.zeros((T, n), np.int64)
    L, V, R, D = (np.zeros((T, n), np.float32) for _ in range(4))
    for t in range(T):
        X[t], M[t] = match.boards.planes(1), match.boards.free()
        A[t], L[t], V[t] = player.move(X[t], M[t])
        R[t], D[t] = match.step(A[t])
    _, _, nxt = player.move(match.boards.planes(1), match.boards.free())
    adv, run = np.zeros_like(R), 0.0
    for t in reversed(range(T)):
        keep = 1 - D[t]
        run = R[t] + cfg.gamma * keep * nxt - V[t] + cfg.gamma * cfg.lam * keep * run
        adv[t], nxt = run, V[t]
    flat = [torch.from_numpy(x.reshape(T * n, *x.shape[2:])) for x in (X, M, A, L, adv, adv + V)]
    return flat


def improve(player, opt, data):
    X, M, A, L, adv, ret = data
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(cfg.epochs):
        for k in torch.randperm(len(A)).split(cfg.minibatch):
            logits, v = player(X[k], M[k])
            logp = torch.log_softmax(logits, -1)
            ratio = (logp.gather(1, A[k, None])[:, 0] - L[k]).exp()
            pg = -torch.min(ratio * adv[k], ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * adv[k]).mean()
            loss = pg + 0.5 * F.mse_loss(v, ret[k]) + cfg.ent * (logp.exp() * logp).sum(-1).mean()
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(player.parameters(), 0.5)
            opt.step()
    return loss.item()


class Dice(torch.nn.Module):
    def move(self, planes, free):
        p = np.random.rand(*free.shape) * free
        return p.argmax(1), None, None


def exam(player, rounds=12):
    m = Match(cfg.games)
    m.begin(Dice())
    for _ in range(rounds):
        m.step(player.move(m.boards.planes(1), m.boards.free())[0])
    return np.mean([r > 0 for r, _ in m.finished]) if m.finished else 0.0


def main():
    torch.set_num_threads(1)
    random.seed(cfg.seed); np.random.seed(cfg.seed); torch.manual_seed(cfg.seed)
    player = Player()
    opt = torch.optim.Adam(player.parameters(), lr=cfg.lr, fused=True)
    league, match = League(player, cfg.league), Match(cfg.games)
    t0 = time.time()
    for it in range(1, cfg.iterations + 1):
        if (it - 1) % 4 == 0:
            match.begin(league.draw())
        loss = improve(player, opt, gather(match, player))
        recent, match.finished = match.finished, []
        wins = np.mean([r > 0 for r, _ in recent]) if recent else 0.5
        league.report(wins)
        if it % cfg.snapshot_every == 0:
            league.join(player)
        if it % cfg.eval_every == 0:
            print("exam against dice:", exam(player), flush=True)
        if it % 5 == 0:
            steps = it * cfg.games * cfg.horizon
            print(f"it {it} steps {steps} wins {wins:.2f} loss {loss:.3f} league {len(league.members)} {steps / (time.time() - t0):.0f}/s", flush=True)


if __name__ == "__main__":
    main()

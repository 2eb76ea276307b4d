"""Double DQN for radio relays that choose a channel in a drifting spectrum."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CHANNELS = 5
WIDTH_IN = 2 * CHANNELS + 1


class Spectrum:
    def __init__(self, relays, seed):
        self.relays = relays
        self.rng = np.random.default_rng(seed)
        self.noise = self.rng.random((relays, CHANNELS), dtype=np.float32)
        self.slope = self.rng.normal(0, 0.02, (relays, CHANNELS)).astype(np.float32)
        self.current = np.zeros(relays, np.int64)
        self.left = self.rng.integers(1, 120, relays)
        self.rows = np.arange(relays)
        self.onehot = np.eye(CHANNELS, dtype=np.float32)

    def observe(self):
        out = np.empty((self.relays, WIDTH_IN), np.float32)
        out[:, :CHANNELS] = self.noise
        out[:, CHANNELS:-1] = self.onehot[self.current]
        out[:, -1] = self.left / 120
        return out

    def step(self, channel):
        switched = channel != self.current
        self.current = channel
        self.noise += self.slope
        hit = (self.noise < 0) | (self.noise > 1)
        self.slope[hit] *= -1
        np.clip(self.noise, 0, 1, out=self.noise)
        reward = 1 - self.noise[self.rows, channel] - 0.3 * switched
        self.left -= 1
        done = self.left <= 0
        after = self.observe()
        who = np.flatnonzero(done)
        if len(who):
            self.noise[who] = self.rng.random((len(who), CHANNELS), dtype=np.float32)
            self.slope[who] = self.rng.normal(0, 0.02, (len(who), CHANNELS))
            self.left[who] = 120
        return after, reward.astype(np.float32), done


class Ring:
    """Transitions of all relays, one slab per tick, ready for torch."""

    def __init__(self, slabs, relays, seed):
        self.shape = slabs, relays
        self.s = torch.zeros(slabs * relays, WIDTH_IN)
        self.s2 = torch.zeros(slabs * relays, WIDTH_IN)
        self.a = torch.zeros(slabs * relays, 1, dtype=torch.long)
        self.r = torch.zeros(slabs * relays)
        self.live = torch.zeros(slabs * relays)
        self.tick = 0
        self.gen = torch.Generator().manual_seed(seed)

    def put(self, s, a, r, s2, done):
        slabs, relays = self.shape
        lo = (self.tick % slabs) * relays
        cut = slice(lo, lo + relays)
        self.s[cut] = torch.from_numpy(s)
        self.a[cut, 0] = torch.from_numpy(a)
        self.r[cut] = torch.from_numpy(r)
        self.s2[cut] = torch.from_numpy(s2)
        self.live[cut] = torch.from_numpy(~done)
        self.tick += 1

    def sample(self, k):
        slabs, relays = self.shape
        i = torch.randint(min(self.tick, slabs) * relays, (k,), generator=self.gen)
        return self.s[i], self.a[i], self.r[i], self.s2[i], self.live[i]


def make_q():
    return nn.Sequential(nn.Linear(WIDTH_IN, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, CHANNELS))


def main(seed=19, relays=512, batch=2048, gamma=0.97, ticks=3_000_000):
    np.random.seed(seed)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    spectrum = Spectrum(relays, seed)
    ring = Ring(400, relays, seed)
    q, q_slow = make_q(), make_q()
    q_slow.load_state_dict(q.state_dict())
    adam = torch.optim.Adam(q.parameters(), lr=1e-3, fused=True)
    s, steps, total = spectrum.observe(), 0, 0.0
    for tick in range(1, ticks):
        with torch.inference_mode():
            a = q(torch.from_numpy(s)).argmax(1).numpy()
        wild = np.flatnonzero(rng.random(relays) < max(0.02, 1 - tick / 1500))
        a[wild] = rng.integers(0, CHANNELS, len(wild))
        after, r, done = spectrum.step(a)
        ring.put(s, a, r, after, done)
        s = spectrum.observe() if done.any() else after
        steps += relays
        total += float(r.mean())

        if tick >= 16:
            b_s, b_a, b_r, b_s2, b_live = ring.sample(batch)
            with torch.no_grad():
                best = q(b_s2).argmax(1, keepdim=True)
                goal = b_r + gamma * b_live * q_slow(b_s2).gather(1, best).squeeze(1)
            loss = F.smooth_l1_loss(q(b_s).gather(1, b_a).squeeze(1), goal)
            adam.zero_grad()
            loss.backward()
            adam.step()
            if tick % 250 == 0:
                q_slow.load_state_dict(q.state_dict())
        if tick % 500 == 0:
            print(f"tick {tick} steps {steps} reward {total / 500:.4f} loss {loss.item():.5f}", flush=True)
            total = 0.0


if __name__ == "__main__":
    main()

# recurrent PPO, adapted from cleanrl ppo_atari_lstm for my memory corridor
import argparse
import os
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions.categorical import Categorical


class Corridor(gym.Env):
    """cue in the first steps, noisy walk through a corridor, door at the end must match the cue"""

    def __init__(self, length=40, cues=4, max_t=160):
        self.length, self.cues, self.max_t = length, cues, max_t
        self.observation_space = gym.spaces.Box(-5, 5, (cues + 8,), np.float32)
        self.action_space = gym.spaces.Discrete(3 + cues)

    def _obs(self):
        o = np.zeros(self.cues + 8, np.float32)
        if self.t < 3:
            o[self.cue] = 1.0
        o[self.cues] = self.x / self.length
        o[self.cues + 1] = self.x >= self.length
        o[self.cues + 2 :] = self.noise[self.t]
        return o

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cue = int(self.np_random.integers(self.cues))
        self.x, self.t = 0.0, 0
        self.noise = self.np_random.normal(0, 0.3, (self.max_t + 1, 6)).astype(np.float32)
        return self._obs(), {}

    def step(self, a):
        self.t += 1
        r, term = -0.005, False
        if a == 0:
            self.x = min(self.length, self.x + 1)
            r += 0.01
        elif a == 1:
            self.x = max(0.0, self.x - 1)
        elif a >= 3:
            if self.x >= self.length:
                term = True
                r = 1.0 if a - 3 == self.cue else -0.5
            else:
                r -= 0.02
        return self._obs(), r, term, self.t >= self.max_t, {}


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--num-envs", type=int, default=16)
    p.add_argument("--num-steps", type=int, default=96)
    p.add_argument("--iters", type=int, default=100000)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--gamma", type=float, default=0.99)
    p.add_argument("--gae-lambda", type=float, default=0.95)
    p.add_argument("--num-minibatches", type=int, default=2)
    p.add_argument("--update-epochs", type=int, default=3)
    p.add_argument("--clip", type=float, default=0.15)
    p.add_argument("--ent", type=float, default=0.01)
    p.add_argument("--vf", type=float, default=0.5)
    p.add_argument("--hidden", type=int, default=64)
    p.add_argument("--capture-video", action="store_true")  # not used, no renderer
    return p.parse_args()


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self, n_in, n_act, h):
        super().__init__()
        self.enc = nn.Sequential(layer_init(nn.Linear(n_in, h)), nn.ReLU())
        self.lstm = nn.LSTM(h, h)
        for name, param in self.lstm.named_parameters():
            if "bias" in name:
                nn.init.constant_(param, 0)
            elif "weight" in name:
                nn.init.orthogonal_(param, 1.0)
        self.actor = layer_init(nn.Linear(h, n_act), std=0.01)
        self.critic = layer_init(nn.Linear(h, 1), std=1)

    def get_states(self, x, lstm_state, done):
        hidden = self.enc(x)
        # LSTM logic
        batch_size = lstm_state[0].shape[1]
        hidden = hidden.reshape((-1, batch_size, self.lstm.input_size))
        done = done.reshape((-1, batch_size))
        new_hidden = []
        for h, d in zip(hidden, done):
            h, lstm_state = self.lstm(
                h.unsqueeze(0),
                (
                    (1.0 - d).view(1, -1, 1) * lstm_state[0],
                    (1.0 - d).view(1, -1, 1) * lstm_state[1],
                ),
            )
            new_hidden += [h]
        new_hidden = torch.flatten(torch.cat(new_hidden), 0, 1)
        return new_hidden, lstm_state

    def get_value(self, x, lstm_state, done):
        hidden, _ = self.get_states(x, lstm_state, done)
        return self.critic(hidden)

    def get_action_and_value(self, x, lstm_state, done, action=None):
        hidden, lstm_state = self.get_states(x, lstm_state, done)
        probs = Categorical(logits=self.actor(hidden), validate_args=False)
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(hidden), lstm_state


def main():
    args = parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    N, T = args.num_envs, args.num_steps
    envs = gym.vector.SyncVectorEnv([Corridor for _ in range(N)])
    agent = Agent(envs.single_observation_space.shape[0], envs.single_action_space.n, args.hidden)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.lr, eps=1e-5)

    obs = torch.zeros((T, N) + envs.single_observation_space.shape)
    actions = torch.zeros((T, N), dtype=torch.long)
    logprobs, values = torch.zeros((T, N)), torch.zeros((T, N))
    dones = torch.zeros((T, N))
    rewards = np.zeros((T, N), np.float32)

    global_step, start = 0, time.time()
    o, _ = envs.reset(seed=args.seed)
    next_obs, next_done = torch.from_numpy(o), torch.zeros(N)
    z = lambda: torch.zeros(agent.lstm.num_layers, N, agent.lstm.hidden_size)
    next_state = (z(), z())
    ep_ret, log = np.zeros(N), []
    tl, sl = time.time(), 0
    for it in range(1, args.iters + 1):
        init_state = (next_state[0].clone(), next_state[1].clone())
        for t in range(T):
            global_step += N
            obs[t], dones[t] = next_obs, next_done
            with torch.no_grad():
                a, lp, _, v, next_state = agent.get_action_and_value(next_obs, next_state, next_done)
            values[t], actions[t], logprobs[t] = v.flatten(), a, lp
            o, r, term, trunc, _ = envs.step(a.numpy())
            rewards[t] = r
            d = term | trunc
            ep_ret += r
            if d.any():
                log.extend(ep_ret[d].tolist())
                ep_ret[d] = 0
            next_obs, next_done = torch.from_numpy(o), torch.from_numpy(d.astype(np.float32))

        with torch.no_grad():
            nv = agent.get_value(next_obs, next_state, next_done).flatten().numpy()
        val, dn = values.numpy(), dones.numpy()
        adv = np.zeros((T, N), np.float32)
        last = 0
        for t in range(T - 1, -1, -1):
            nt = 1.0 - (next_done.numpy() if t == T - 1 else dn[t + 1])
            nx = nv if t == T - 1 else val[t + 1]
            delta = rewards[t] + args.gamma * nx * nt - val[t]
            adv[t] = last = delta + args.gamma * args.gae_lambda * nt * last
        adv = torch.from_numpy(adv)
        ret = adv + values

        per = N // args.num_minibatches
        for _ in range(args.update_epochs):
            perm = torch.randperm(N)
            for s in range(0, N, per):
                e = perm[s : s + per]
                _, nlp, ent, newv, _ = agent.get_action_and_value(
                    obs[:, e].flatten(0, 1), (init_state[0][:, e], init_state[1][:, e]), dones[:, e].flatten(), actions[:, e].flatten()
                )
                A = adv[:, e].flatten()
                A = (A - A.mean()) / (A.std() + 1e-8)
                ratio = (nlp - logprobs[:, e].flatten()).exp()
                pg = torch.max(-A * ratio, -A * ratio.clamp(1 - args.clip, 1 + args.clip)).mean()
                vl = F.mse_loss(newv.view(-1), ret[:, e].flatten())
                loss = pg + args.vf * 0.5 * vl - args.ent * ent.mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        if time.time() - tl > 2:
            print(
                f"it={it} step={global_step} SPS={(global_step - sl) / (time.time() - tl):.0f} "
                f"ret={np.mean(log[-50:]) if log else float('nan'):.3f} vl={vl.item():.4f} H={ent.mean().item():.3f}",
                flush=True,
            )
            tl, sl = time.time(), global_step
            log = log[-200:]
        if it % 1000 == 0:
            d = os.path.join(os.path.dirname(os.path.abspath(__file__)), "w")
            os.makedirs(d, exist_ok=True)
            torch.save(agent.state_dict(), os.path.join(d, "lstm.pt"))


if __name__ == "__main__":
    main()

import numpy as np


class Rollout:
    """[time, robot] arrays for one PPO iteration."""

    def __init__(self, steps, robots, obs_dim):
        self.obs = np.zeros((steps, robots, obs_dim), np.float32)
        self.act = np.zeros((steps, robots), np.int64)
        self.logp = np.zeros((steps, robots), np.float32)
        self.val = np.zeros((steps, robots), np.float32)
        self.rew = np.zeros((steps, robots), np.float32)
        self.end = np.zeros((steps, robots), np.float32)

    def advantages(self, last_value, gamma, lam):
        adv = np.zeros_like(self.rew)
        running = np.zeros_like(last_value)
        nxt = last_value
        for t in reversed(range(len(self.rew))):
            alive = 1.0 - self.end[t]
            delta = self.rew[t] + gamma * alive * nxt - self.val[t]
            running = delta + gamma * lam * alive * running
            adv[t], nxt = running, self.val[t]
        return adv, adv + self.val


def collect(env, policy, obs, data: Rollout):
    """Fill `data`; returns the observations to go on with and the mean reward of a robot's step."""
    names = env.possible_agents
    for t in range(len(data.obs)):
        actions = {}
        for i, name in enumerate(names):
            data.obs[t, i] = obs[name]
            actions[name], data.logp[t, i], data.val[t, i] = policy.act(obs[name])
            data.act[t, i] = actions[name]
        obs, rewards, _, truncated, _ = env.step(actions)
        data.rew[t] = [rewards[name] for name in names]
        data.end[t] = truncated[names[0]]
        if not env.agents:
            obs, _ = env.reset()
    return obs, float(data.rew.mean())

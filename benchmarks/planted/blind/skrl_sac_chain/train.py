import os
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from gymnasium.vector.utils import batch_space

from skrl.agents.torch.sac import SAC, SAC_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed

HERE = os.path.dirname(os.path.abspath(__file__))
N_ENVS = 32
LINKS = 12


class Chain(gym.vector.VectorEnv):
    """a chain of spring-coupled carts, push the first three, keep the last one on a moving mark"""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}

    def __init__(self, num_envs, links=LINKS, horizon=300, seed=0):
        self.num_envs, self.links, self.horizon = num_envs, links, horizon
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (2 * links + 3,), np.float32)
        self.single_action_space = gym.spaces.Box(-1, 1, (3,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.rng = np.random.default_rng(seed)
        self.x = np.zeros((num_envs, links), np.float32)
        self.v = np.zeros((num_envs, links), np.float32)
        self.ph = np.zeros(num_envs, np.float32)
        self.t = np.zeros(num_envs, np.int64)
        self.render_mode, self.spec, self.closed = None, None, False

    def _spawn(self, m):
        k = int(m.sum())
        if k:
            self.x[m] = self.rng.normal(0, 0.2, (k, self.links))
            self.v[m] = 0
            self.ph[m] = self.rng.uniform(0, 6.28, k)
            self.t[m] = 0

    def _mark(self):
        return np.sin(0.02 * self.t + self.ph).astype(np.float32)

    def _obs(self):
        m = self._mark()[:, None]
        c = np.cos(0.02 * self.t + self.ph).astype(np.float32)[:, None]
        return np.concatenate([self.x, self.v, m, c, self.x[:, -1:] - m], 1)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self._spawn(np.ones(self.num_envs, bool))
        return self._obs(), {}

    def step(self, a):
        a = np.clip(np.asarray(a, np.float32), -1, 1)
        for _ in range(2):
            f = -0.05 * self.x - 0.1 * self.v
            d = np.diff(self.x, axis=1)
            f[:, :-1] += 4 * d
            f[:, 1:] -= 4 * d
            f[:, :3] += 3 * a
            self.v += 0.04 * f
            self.x += 0.04 * self.v
        self.t += 1
        err = np.abs(self.x[:, -1] - self._mark())
        r = (1 - err - 0.02 * (a * a).sum(1)).astype(np.float32)
        bad = np.abs(self.x).max(1) > 6
        tr = self.t >= self.horizon
        self._spawn(bad | tr)
        return self._obs(), r, bad, tr & ~bad, {}


class Actor(GaussianMixin, Model):
    def __init__(self, o, a, dev):
        Model.__init__(self, observation_space=o, action_space=a, device=dev)
        GaussianMixin.__init__(self, clip_actions=True, clip_log_std=True, min_log_std=-5, max_log_std=2)
        self.b = nn.Sequential(nn.Linear(self.num_observations, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
        self.m = nn.Linear(256, self.num_actions)
        self.s = nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs, role=""):
        return torch.tanh(self.m(self.b(inputs["observations"]))), {"log_std": self.s}


class Critic(DeterministicMixin, Model):
    def __init__(self, o, a, dev):
        Model.__init__(self, observation_space=o, action_space=a, device=dev)
        DeterministicMixin.__init__(self)
        self.b = nn.Sequential(
            nn.Linear(self.num_observations + self.num_actions, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)
        )

    def compute(self, inputs, role=""):
        return self.b(torch.cat([inputs["observations"], inputs["taken_actions"]], 1)), {}


class Talk(SAC):
    mark = None

    def post_interaction(self, *, timestep, timesteps):
        super().post_interaction(timestep=timestep, timesteps=timesteps)
        now = time.time()
        if self.mark is None:
            self.mark = (now, timestep)
        if now - self.mark[0] > 2:
            sps = (timestep - self.mark[1]) * N_ENVS / (now - self.mark[0])
            r = np.mean(self._track_rewards) if len(self._track_rewards) else float("nan")
            print(f"t {timestep} ({timestep * N_ENVS} env steps) sps {sps:.0f} ret {r:.1f}", flush=True)
            self.mark = (now, timestep)


def main():
    torch.set_num_threads(1)
    set_seed(13)
    env = wrap_env(Chain(N_ENVS, seed=13))
    o, a, dev = env.observation_space, env.action_space, env.device
    models = {"policy": Actor(o, a, dev)}
    for k in ("critic_1", "critic_2", "target_critic_1", "target_critic_2"):
        models[k] = Critic(o, a, dev)
    mem = RandomMemory(memory_size=8000, num_envs=env.num_envs, device=dev, replacement=True)
    cfg = SAC_CFG(
        gradient_steps=1,
        batch_size=1024,
        discount_factor=0.98,
        polyak=0.005,
        learning_rate=5e-4,
        random_timesteps=60,
        learning_starts=60,
        grad_norm_clip=0,
        learn_entropy=True,
        initial_entropy_value=0.1,
        observation_preprocessor=RunningStandardScaler,
        observation_preprocessor_kwargs={"size": o, "device": dev},
        experiment={"directory": os.path.join(HERE, "runs"), "experiment_name": "chain_sac", "write_interval": 1000, "checkpoint_interval": 10000},
    )
    agent = Talk(models=models, memory=mem, cfg=cfg, observation_space=o, action_space=a, device=dev)
    SequentialTrainer(env=env, agents=agent, cfg={"timesteps": 2_000_000, "headless": True, "disable_progressbar": True}).train()


if __name__ == "__main__":
    main()

import os, sys, time
import numpy as np
import gymnasium as gym
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
import torch as th
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv

th.set_num_threads(1)

# ---------------------------------------------------------------- config
C = {
    "env": {"mass": 0.6, "arm": 0.18, "dt": 0.03, "wind": 0.4},
    "n_envs": 4,
    "sac": {
        "learning_rate": 3e-4,
        "buffer_size": 200_000,
        "learning_starts": 600,
        "batch_size": 128,
        "tau": 0.005,
        "gamma": 0.985,
        "train_freq": 1,
        "gradient_steps": 16,
        "ent_coef": "auto_0.2",
        "use_sde": False,
    },
    "net": [128, 128],
    "total": 2_000_000,
    "seed": 5,
}


class PlanarHover(gym.Env):
    """planar quadrotor, two rotors, hold at the target point in gusty wind"""

    def __init__(self, mass=0.6, arm=0.18, dt=0.03, wind=0.4):
        self.m, self.l, self.dt, self.wind = mass, arm, dt, wind
        self.J = 0.012
        self.g = 9.81
        self.observation_space = spaces.Box(-np.inf, np.inf, (8,), np.float32)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)

    def _o(self):
        x, z, th_, vx, vz, om = self.s
        return np.array([x - self.goal[0], z - self.goal[1], np.sin(th_), np.cos(th_), vx, vz, om * 0.2, self.gust],
                        dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        u = self.np_random.uniform(-1, 1, 6)
        self.s = u * np.array([1, 1, 0.2, 0.3, 0.3, 0.2])
        self.goal = self.np_random.uniform(-0.7, 0.7, 2)
        self.gust = 0.0
        return self._o(), {}

    def step(self, a):
        f = (np.clip(a, -1, 1) * 0.6 + 1.0) * self.m * self.g / 2
        x, z, t, vx, vz, om = self.s
        self.gust += -0.05 * self.gust + self.wind * 0.1 * self.np_random.standard_normal()
        F = f[0] + f[1]
        ax = -F / self.m * np.sin(t) + self.gust
        az = F / self.m * np.cos(t) - self.g
        al = (f[1] - f[0]) * self.l / self.J * 0.1
        h = self.dt
        vx, vz, om = vx + h * ax, vz + h * az, om + h * al
        self.s = np.array([x + h * vx, z + h * vz, t + h * om, vx, vz, om])
        d2 = (self.s[0] - self.goal[0]) ** 2 + (self.s[1] - self.goal[1]) ** 2
        r = np.exp(-2 * d2) - 0.02 * om * om - 0.01 * float(np.dot(a, a))
        crash = abs(self.s[0]) > 3 or abs(self.s[1]) > 3 or abs(self.s[2]) > 1.4
        if crash:
            r -= 5.0
        return self._o(), float(r), bool(crash), False, {}


def mk(i):
    def _t():
        e = TimeLimit(PlanarHover(**C["env"]), 250)
        e = Monitor(e)
        e.reset(seed=C["seed"] + i)
        return e
    return _t


class Progress(BaseCallback):
    def __init__(self, every=2000):
        super().__init__()
        self.every, self.nx, self.t = every, every, time.time()

    def _on_step(self):
        if self.num_timesteps >= self.nx:
            self.nx += self.every
            buf = self.model.ep_info_buffer
            rew = np.mean([b["r"] for b in buf]) if buf else float("nan")
            print(f"{self.num_timesteps:8d}  ret {rew:8.2f}  upd {self.model._n_updates}  {time.time()-self.t:.0f}s", flush=True)
        return True


def main():
    out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sac_out")
    os.makedirs(out, exist_ok=True)
    venv = DummyVecEnv([mk(i) for i in range(C["n_envs"])])
    model = SAC("MlpPolicy", venv, policy_kwargs=dict(net_arch=C["net"]), seed=C["seed"], device="cpu", **C["sac"])
    ev = EvalCallback(DummyVecEnv([mk(900)]), n_eval_episodes=3, eval_freq=15_000, best_model_save_path=out, verbose=0)
    if len(sys.argv) > 1 and os.path.exists(sys.argv[1]):
        model.set_parameters(sys.argv[1])
    model.learn(C["total"], callback=[Progress(), ev], log_interval=None)
    model.save(os.path.join(out, "hover"))


if __name__ == "__main__":
    main()

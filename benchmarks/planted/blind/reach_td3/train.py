"""TD3, puck pushing. python train.py"""
import os

import numpy as np
import yaml
from stable_baselines3 import TD3
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise, VectorizedActionNoise

from pusher import PushPuck

here = os.path.dirname(os.path.abspath(__file__))
P = yaml.safe_load(open(os.path.join(here, "params.yaml")))


class SigmaSchedule(BaseCallback):
    """exploration noise goes down linearly; looked at only now and then"""

    def __init__(self, hi, lo, steps, every=500):
        super().__init__()
        self.hi, self.lo, self.steps, self.every = hi, lo, steps, every

    def _on_step(self):
        if self.n_calls % self.every == 0:
            f = min(self.num_timesteps / self.steps, 1.0)
            s = self.hi + f * (self.lo - self.hi)
            self.model.action_noise = VectorizedActionNoise(
                NormalActionNoise(np.zeros(2), s * np.ones(2)), self.training_env.num_envs)
        return True


class Success(BaseCallback):
    def __init__(self, every=10_000):
        super().__init__()
        self.every, self.nxt = every, every

    def _on_step(self):
        if self.num_timesteps >= self.nxt:
            self.nxt += self.every
            sb, eb = self.model.ep_success_buffer, self.model.ep_info_buffer
            if eb:
                print("%7d  success %.2f  ret %.1f  len %.0f" % (
                    self.num_timesteps, np.mean(sb) if len(sb) else 0.0,
                    np.mean([e["r"] for e in eb]), np.mean([e["l"] for e in eb])), flush=True)
        return True


def main():
    out = os.path.join(here, "td3_runs")
    os.makedirs(out, exist_ok=True)
    n = P["n_envs"]
    venv = make_vec_env(PushPuck, n_envs=n, seed=P["seed"])
    ev = make_vec_env(PushPuck, n_envs=5, seed=990)
    hi, lo = P["sigma"]
    model = TD3(
        "MlpPolicy", venv,
        action_noise=VectorizedActionNoise(NormalActionNoise(np.zeros(2), hi * np.ones(2)), n),
        policy_kwargs=dict(net_arch=P["policy"]), device="cpu", seed=P["seed"], **P["td3"],
    )
    cbs = [
        SigmaSchedule(hi, lo, P["sigma_steps"]),
        Success(),
        EvalCallback(ev, n_eval_episodes=10, eval_freq=P["evaluate_every"] // n, best_model_save_path=out, verbose=1),
    ]
    model.learn(P["total"], callback=cbs, log_interval=200)
    model.save(os.path.join(out, "final"))
    # model.save_replay_buffer(os.path.join(out, "rb"))


if __name__ == "__main__":
    main()

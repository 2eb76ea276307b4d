from dataclasses import dataclass
from pathlib import Path

from stable_baselines3 import SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from leg import HoppingLeg


@dataclass
class Settings:
    n_envs: int = 4
    learning_rate: float = 3e-4
    buffer_size: int = 300_000
    batch_size: int = 256
    learning_starts: int = 1000
    gamma: float = 0.99
    tau: float = 0.005
    hidden: int = 256
    epochs: int = 100
    steps_per_epoch: int = 20_000
    seed: int = 2
    out: str = "out"


class Trainer:
    def __init__(self, s: Settings):
        self.s = s
        Path(s.out).mkdir(exist_ok=True)
        self.env = make_vec_env(HoppingLeg, n_envs=s.n_envs, seed=s.seed)
        self.test_env = make_vec_env(HoppingLeg, n_envs=5, seed=s.seed + 99)
        self.model = SAC(
            "MlpPolicy", self.env, learning_rate=s.learning_rate, buffer_size=s.buffer_size,
            batch_size=s.batch_size, learning_starts=s.learning_starts, gamma=s.gamma, tau=s.tau,
            train_freq=1, gradient_steps=-1, ent_coef="auto",
            policy_kwargs=dict(net_arch=[s.hidden, s.hidden], optimizer_kwargs=dict(fused=True)),
            seed=s.seed, device="cpu", verbose=1,
        )

    def run(self):
        for epoch in range(self.s.epochs):
            self.model.learn(self.s.steps_per_epoch, reset_num_timesteps=(epoch == 0), log_interval=10)
            mean, std = evaluate_policy(self.model, self.test_env, n_eval_episodes=5)
            print(f"epoch {epoch}: {mean:.1f} +- {std:.1f}")
            self.model.save(Path(self.s.out) / "sac_leg")

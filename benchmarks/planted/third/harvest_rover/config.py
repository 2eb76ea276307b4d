from dataclasses import dataclass


@dataclass
class WorldConfig:
    n_worlds: int = 32
    size: int = 26
    rock_density: float = 0.08
    ore_density: float = 0.06
    n_rays: int = 16
    reach: int = 10
    max_steps: int = 160


@dataclass
class PPOConfig:
    horizon: int = 64
    epochs: int = 4
    minibatch: int = 512
    gamma: float = 0.98
    lam: float = 0.95
    clip: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    lr: float = 5e-4
    hidden: int = 128
    iterations: int = 20_000
    seed: int = 3

"""Any registered Gymnasium environment as a system: its environment, and PPO or DQN with defaults that suit small tasks."""

from collections.abc import Callable
from typing import Any

from hotlap.train.configs import DQNConfig, PPOConfig
from hotlap.train.system import RLSystem

KERNELS = {"CartPole-v1": "cartpole"}  # environments of which hotlap has a kernel

PPO = PPOConfig(entropy=0.01, target_kl=0.02)
DQN = DQNConfig(
    num_envs=8,
    turbo=False,
    total_steps=100_000,
    iteration_steps=128,
    updates_per_step=4,
    batch_size=128,
    buffer_size=50_000,
    learning_starts=2_000,
    learning_rate=1e-3,
    double=True,
    target_sync=200,
    grad_clip=10.0,
    epsilon_end=0.02,
    epsilon_steps=20_000,
)


def gym_system(name: str, algorithm: str) -> RLSystem:
    config: Any = {"ppo": PPO, "dqn": DQN}[algorithm]
    return RLSystem(
        name=name,
        summary=f"{name} of Gymnasium",
        algorithm=algorithm.upper(),
        trainer_module=f"hotlap.train.{algorithm}",
        presets={"fast": config},
        preset_notes={"fast": "defaults for small tasks"},
        make_env=_maker(name),
        score="return",
        kernel=name in KERNELS,
    )


def _maker(name: str) -> Callable[..., Any]:
    def make_env(config: Any, num_envs: int | None = None) -> Any:
        """As many as the config says, with room for a rollout; or another number, to evaluate."""
        from hotlap.envs.vector import make_gym, make_vec

        number = config.num_envs if num_envs is None else num_envs
        groups = getattr(config, "async_factor", 1) if num_envs is None else 1
        depth = config.horizon + 1 if num_envs is None and hasattr(config, "horizon") else 2
        if config.turbo:
            if name not in KERNELS:
                raise ValueError(f"hotlap has no kernel of {name}: leave out --turbo")
            return make_vec(KERNELS[name], number, seed=config.seed, threads=config.env_threads, depth=depth)
        workers = min(config.workers, number)
        return make_gym(name, number, config.seed, workers, groups, depth, config.env_timeout)

    return make_env

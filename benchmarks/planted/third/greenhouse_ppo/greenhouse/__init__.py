import gymnasium as gym

gym.register(
    id="greenhouse-v1",
    entry_point="greenhouse.env:GreenhouseEnv",
    max_episode_steps=None,
    disable_env_checker=True,
)

from gymnasium.envs.registration import register

register(id="Glider-v0", entry_point="envs.glider:GliderEnv", max_episode_steps=400)

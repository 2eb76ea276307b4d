SETTINGS = {
    "seed": 11,
    "n_envs": 8,
    "history": 4,
    "sensor_sigma": 0.01,
    "env": {"size": 12, "n_orders": 3, "max_steps": 200},
    "total_timesteps": 10_000_000,
    "ppo": {
        "n_steps": 256,
        "batch_size": 512,
        "n_epochs": 4,
        "learning_rate": 4e-4,
        "gamma": 0.98,
        "ent_coef": 0.01,
        "policy_kwargs": {"net_arch": {"pi": [64, 64], "vf": [64, 64]}},
    },
}

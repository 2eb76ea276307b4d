"""All the knobs; `python train.py env.wind=0.8 ppo.lr=1e-4` overrides."""
import ast
import copy

DEFAULTS = {
    "seed": 11,
    "total_frames": 5_000_000,
    "frames_per_batch": 2048,
    "log_every": 5,
    "env": {"num_envs": 16, "frames": 4, "max_steps": 400, "max_thrust": 6.0, "wind": 0.4,
            "clip_obs": 8.0, "clip_reward": 5.0, "reward_scale": 0.5},
    "model": {"width": 64},
    "ppo": {"epochs": 3, "minibatch": 512, "lr": 3e-4, "gamma": 0.99, "lam": 0.95, "clip": 0.2,
            "entropy": 1e-3, "max_grad_norm": 0.5},
}


def parse(argv):
    cfg = copy.deepcopy(DEFAULTS)
    for arg in argv:
        path, value = arg.split("=", 1)
        node = cfg
        *parents, leaf = path.split(".")
        for key in parents:
            node = node[key]
        if leaf not in node:
            raise KeyError(path)
        try:
            node[leaf] = ast.literal_eval(value)
        except ValueError:
            node[leaf] = value
    return cfg

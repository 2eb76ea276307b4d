"""Reading of zoo-style hyperparameter files."""
from pathlib import Path

import torch.nn as nn  # noqa: F401  (used by eval'd policy_kwargs)
import yaml


def linear_schedule(start):
    def f(progress_remaining):
        return progress_remaining * start

    return f


def read_hyperparams(path, env_id):
    with Path(path).open() as fh:
        table = yaml.safe_load(fh)
    if env_id not in table:
        raise KeyError(f"no hyperparameters for {env_id} in {path}")
    hp = dict(table[env_id])
    for key in ("learning_rate", "clip_range"):
        if isinstance(hp.get(key), str):
            kind, value = hp[key].split("_", 1)
            assert kind == "lin", hp[key]
            hp[key] = linear_schedule(float(value))
    if isinstance(hp.get("policy_kwargs"), str):
        hp["policy_kwargs"] = eval(hp["policy_kwargs"])
    run = {k: hp.pop(k) for k in ("n_envs", "n_timesteps", "normalize", "env_kwargs") if k in hp}
    run["n_timesteps"] = int(run["n_timesteps"])
    return run, hp

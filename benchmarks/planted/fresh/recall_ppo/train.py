import argparse
import pathlib
import time

import numpy as np
import torch
import yaml

from recall.env import CorridorBatch
from recall.model import RecurrentActorCritic
from recall.ppo import Trainer

HERE = pathlib.Path(__file__).resolve().parent

if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", default=str(HERE / "config.yaml"))
    args = ap.parse_args()
    cfg = yaml.safe_load(open(args.config))
    torch.set_num_threads(1)
    torch.manual_seed(cfg["seed"])
    np.random.seed(cfg["seed"])

    env = CorridorBatch(**cfg["env"], seed=cfg["seed"])
    model = RecurrentActorCritic(env.obs_dim, env.n_actions, **cfg["model"])
    trainer = Trainer(env, model, cfg["ppo"])
    steps, start = 0, time.time()
    for it in range(1, cfg["ppo"]["iterations"] + 1):
        ep = trainer.collect()
        loss = trainer.update(ep)
        steps += env.n * env.length
        if it % 5 == 0:
            print(f"[{it}] steps={steps} return={ep.reward:.3f} hit={ep.hit:.2f} loss={loss:.4f} "
                  f"sps={steps / (time.time() - start):.0f}", flush=True)
    torch.save(model.state_dict(), HERE / "model.pt")

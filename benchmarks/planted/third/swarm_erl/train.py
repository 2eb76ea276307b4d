"""Evolutionary RL: a population of policies evolves, their experience trains a DDPG learner that joins the population now and then."""
import argparse
import multiprocessing as mp
import time

import numpy as np
import torch
import yaml

import evaluate
from ddpg import DDPG, Replay
from sweeper import Sweeper


def mutate(weights, std, rng):
    return [w + std * rng.standard_normal(w.shape).astype(np.float32) for w in weights]


def crossover(a, b, rng):
    return [np.where(rng.random(x.shape) < 0.5, x, y) for x, y in zip(a, b)]


def next_generation(population, fitness, cfg, rng):
    order = np.argsort(fitness)[::-1]
    elites = [population[i] for i in order[:cfg["elites"]]]
    children = []
    while len(elites) + len(children) < cfg["population"]:
        i, j = rng.integers(0, len(population) // 2 + 1, size=2)
        children.append(mutate(crossover(population[order[i]], population[order[j]], rng), cfg["mutation_std"], rng))
    return elites + children


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="configs/sweeper.yaml")
    with open(parser.parse_args().config) as f:
        cfg = yaml.safe_load(f)

    rng = np.random.default_rng(cfg["seed"])
    pool = mp.get_context("fork").Pool(cfg["workers"], initializer=evaluate.setup, initargs=(cfg["seed"],))
    torch.manual_seed(cfg["seed"])
    torch.set_num_threads(1)
    learner = DDPG(Sweeper.obs_dim, Sweeper.act_dim, cfg)
    replay = Replay(cfg["replay"], Sweeper.obs_dim, Sweeper.act_dim, cfg["seed"])
    population = [mutate(learner.weights(), 0.1, rng) for _ in range(cfg["population"])]

    steps, start = 0, time.time()
    try:
        for gen in range(1, cfg["generations"] + 1):
            seeds = rng.integers(0, 2**31, size=cfg["population"] + 1).tolist()
            tasks = [(w, cfg["episode_steps"], 0.0, s) for w, s in zip(population, seeds)]
            tasks.append((learner.weights(), cfg["episode_steps"], cfg["explore_std"], seeds[-1]))
            trajs = pool.map(evaluate.episode, tasks, chunksize=1)

            for traj in trajs:
                replay.extend(traj["obs"], traj["action"], traj["reward"])
                steps += len(traj["reward"])
            fitness = np.array([traj["reward"].sum() for traj in trajs[:-1]])
            coverage = np.mean([traj["info"][-1]["floor"].mean() for traj in trajs])

            loss = 0.0
            for _ in range(cfg["updates"]):
                loss = learner.update(*replay.sample(cfg["batch"]))

            population = next_generation(population, fitness, cfg, rng)
            if gen % cfg["inject_every"] == 0:
                population[-1] = learner.weights()
            if gen % 5 == 0:
                print(f"gen {gen:5d} steps {steps:8d} best {fitness.max():7.2f} mean {fitness.mean():7.2f} "
                      f"rl {trajs[-1]['reward'].sum():7.2f} coverage {coverage:.3f} critic {loss:.4f} {steps / (time.time() - start):.0f} steps/s", flush=True)
    finally:
        pool.terminate()


if __name__ == "__main__":
    main()

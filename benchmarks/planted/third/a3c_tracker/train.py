import argparse
import os
import time

os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.multiprocessing as mp

from envs import TrackerBatch
from model import ActorCritic
from my_optim import SharedAdam
from worker import train_worker

parser = argparse.ArgumentParser(description="A3C with an LSTM")
parser.add_argument("--lr", type=float, default=7e-4)
parser.add_argument("--gamma", type=float, default=0.97)
parser.add_argument("--entropy", type=float, default=0.01)
parser.add_argument("--value-coef", type=float, default=0.5)
parser.add_argument("--max-grad-norm", type=float, default=20.0)
parser.add_argument("--num-processes", type=int, default=2)
parser.add_argument("--num-steps", type=int, default=20, help="steps per gradient")
parser.add_argument("--envs", type=int, default=8, help="copies of the environment in each process")
parser.add_argument("--horizon", type=int, default=240)
parser.add_argument("--total-steps", type=int, default=20_000_000)
parser.add_argument("--seed", type=int, default=1)


if __name__ == "__main__":
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    shared = ActorCritic(TrackerBatch.obs_dim, TrackerBatch.n_actions)
    shared.share_memory()
    optimizer = SharedAdam(shared.parameters(), lr=args.lr)
    optimizer.share_memory()
    steps = mp.Value("l", 0)
    score = mp.Value("d", 0.0)

    processes = []
    for rank in range(args.num_processes):
        p = mp.Process(target=train_worker, args=(rank, args, shared, optimizer, steps, score), daemon=True)
        p.start()
        processes.append(p)

    start = time.time()
    while any(p.is_alive() for p in processes):
        time.sleep(1.0)
        n = steps.value
        print(f"Time {time.strftime('%Hh %Mm %Ss', time.gmtime(time.time() - start))}, steps {n}, "
              f"FPS {n / (time.time() - start):.0f}, episode reward {score.value:.2f}", flush=True)
    for p in processes:
        p.join()

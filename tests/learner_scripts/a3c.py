"""Hogwild: processes that share a network and an optimizer. usage: python a3c.py fork|spawn ROUNDS"""

import sys

import torch
import torch.multiprocessing as mp
from game import ActorCritic
from worker import train


class SharedAdam(torch.optim.Adam):
    def __init__(self, parameters, lr):
        super().__init__(parameters, lr=lr)
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state["step"] = torch.zeros(()).share_memory_()
                state["exp_avg"] = torch.zeros_like(parameter).share_memory_()
                state["exp_avg_sq"] = torch.zeros_like(parameter).share_memory_()


if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    shared = ActorCritic()
    shared.share_memory()
    optimizer = SharedAdam(shared.parameters(), 1e-3)
    total = context.Value("i", 0)
    arguments = (shared, optimizer, int(sys.argv[2]), total)
    processes = [context.Process(target=train, args=(rank, *arguments)) for rank in range(2)]
    for process in processes:
        process.start()
    try:
        for process in processes:
            process.join()
    finally:
        print("cleaned up", flush=True)
        for process in processes:
            process.join()
    print("steps", total.value)

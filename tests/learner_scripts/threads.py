"""Actors and a learner are threads, with a queue between them. usage: python threads.py UPDATES"""

import queue
import sys
import threading

import torch
from game import ActorCritic, Game

net = ActorCritic()
optimizer = torch.optim.Adam(net.parameters())
batches = queue.Queue(4)
stop = threading.Event()
steps = [0, 0]


def offer(rows):
    while not stop.is_set():
        try:
            return batches.put(rows, timeout=0.1)
        except queue.Full:
            pass
    return None


def act(rank):
    env = Game()
    obs, _ = env.reset(seed=rank)
    while not stop.is_set():
        rows = []
        for _ in range(20):
            with torch.no_grad():
                logits, _ = net(torch.as_tensor(obs).unsqueeze(0))
            action = int(torch.distributions.Categorical(logits=logits).sample())
            rows.append((obs, action))
            obs, _, done, _, _ = env.step(action)
            steps[rank] += 1
            if done:
                obs, _ = env.reset()
        offer(rows)


def learn(updates):
    for _ in range(updates):
        rows = batches.get()
        logits, value = net(torch.stack([torch.as_tensor(obs) for obs, _ in rows]))
        chosen = logits.log_softmax(-1)[range(len(rows)), [action for _, action in rows]]
        loss = (1 - value).pow(2).mean() - chosen.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    actors = [threading.Thread(target=act, args=(rank,), name=f"actor-{rank}") for rank in range(2)]
    learner = threading.Thread(target=learn, args=(int(sys.argv[1]),), name="learner")
    for thread in (*actors, learner):
        thread.start()
    try:
        learner.join()
    finally:
        stop.set()
        print("cleaned up", flush=True)
    for thread in actors:
        thread.join()
    print("steps", sum(steps))

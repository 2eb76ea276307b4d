"""Double dueling DQN for the coverage task (TorchRL)."""
import argparse
import time

import torch
from tensordict.nn import TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import Composite, LazyTensorStorage, TensorDictReplayBuffer
from torchrl.modules import EGreedyModule, QValueActor
from torchrl.objectives import DQNLoss, HardUpdate
from tqdm import tqdm

from field import MOVES, CoverageEnv
from networks import ConvQ


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=5)
    p.add_argument("--fields", type=int, default=32)
    p.add_argument("--total-frames", type=int, default=2_000_000)
    p.add_argument("--frames-per-batch", type=int, default=128)
    p.add_argument("--updates-per-batch", type=int, default=16)
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--buffer-size", type=int, default=30_000)
    p.add_argument("--learning-starts", type=int, default=512)
    p.add_argument("--gamma", type=float, default=0.98)
    p.add_argument("--lr", type=float, default=2.5e-4)
    p.add_argument("--target-every", type=int, default=500)
    return p.parse_args()


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    env = CoverageEnv(args.fields, seed=args.seed)

    actor = QValueActor(module=ConvQ(len(MOVES)), in_keys=["pixels"],
                        spec=Composite(action=env.action_spec, shape=env.batch_size))
    explore = EGreedyModule(spec=env.action_spec, eps_init=1.0, eps_end=0.05, annealing_num_steps=100_000)
    collector = Collector(env, TensorDictSequential(actor, explore), frames_per_batch=args.frames_per_batch,
                          total_frames=args.total_frames, device="cpu")

    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(args.buffer_size), batch_size=args.batch_size)

    loss_module = DQNLoss(actor, loss_function="smooth_l1", delay_value=True, double_dqn=True)
    loss_module.make_value_estimator(gamma=args.gamma)
    target_update = HardUpdate(loss_module, value_network_update_interval=args.target_every)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=args.lr, fused=True)

    keep = ["pixels", "action", ("next", "pixels"), ("next", "reward"), ("next", "done"), ("next", "terminated")]
    bar = tqdm(total=args.total_frames, unit="frames", mininterval=2.0)
    started, frames, episode_cover = time.time(), 0, []
    for it, data in enumerate(collector):
        bar.update(data.numel())
        frames += data.numel()
        explore.step(data.numel())
        buffer.extend(data.reshape(-1).select(*keep))
        if frames < args.learning_starts:
            continue
        running = 0.0
        for _ in range(args.updates_per_batch):
            batch = buffer.sample()
            loss = loss_module(batch)["loss"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            target_update.step()
            running += loss.detach()
        collector.update_policy_weights_()
        if it % 20 == 0:
            cover = data["next", "pixels"][:, -1, 0].float().mean().item() / 255
            episode_cover.append(cover)
            bar.set_postfix(loss=f"{float(running) / args.updates_per_batch:.4f}", seen=f"{cover:.2f}",
                            eps=f"{explore.eps.item():.2f}", fps=int(frames / (time.time() - started)))
        if it % 1000 == 999:
            torch.save({"model": actor.state_dict(), "coverage": episode_cover}, "coverage.pt")


if __name__ == "__main__":
    main()

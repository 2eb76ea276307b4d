import sys
import time

import torch
from torch.utils.tensorboard import SummaryWriter
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from config import parse
from envs.factory import make_env, make_train_env
from models import make_models


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        ppo = cfg["ppo"]
        proof = make_env(cfg["env"])
        self.actor, self.critic = make_models(
            proof.observation_spec["observation"].shape[-1], proof.action_spec, cfg["model"]["width"])
        env = make_train_env(cfg["env"])
        env.set_seed(cfg["seed"])
        self.collector = Collector(env, self.actor, frames_per_batch=cfg["frames_per_batch"],
                                   total_frames=cfg["total_frames"], device="cpu")
        self.buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(cfg["frames_per_batch"]),
                                             sampler=SamplerWithoutReplacement(), batch_size=ppo["minibatch"])
        self.gae = GAE(gamma=ppo["gamma"], lmbda=ppo["lam"], value_network=self.critic, average_gae=False)
        self.loss = ClipPPOLoss(self.actor, self.critic, clip_epsilon=ppo["clip"], entropy_coeff=ppo["entropy"],
                                critic_coeff=0.5, normalize_advantage=True)
        self.optim = torch.optim.Adam(self.loss.parameters(), lr=ppo["lr"], eps=1e-5, fused=True)
        self.writer = SummaryWriter("runs/hover")

    def update(self, data):
        total = 0.0
        with torch.no_grad():
            data = self.gae(data)
        self.buffer.extend(data.reshape(-1))
        for _ in range(self.cfg["ppo"]["epochs"]):
            for batch in self.buffer:
                out = self.loss(batch)
                loss = out["loss_objective"] + out["loss_critic"] + out["loss_entropy"]
                self.optim.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.loss.parameters(), self.cfg["ppo"]["max_grad_norm"])
                self.optim.step()
                total += loss.detach()
        return total

    def run(self):
        frames, started = 0, time.time()
        for it, data in enumerate(self.collector):
            frames += data.numel()
            loss = self.update(data)
            self.collector.update_policy_weights_()
            if it % self.cfg["log_every"] == 0:
                over = data["next", "done"]
                returns = data["next", "episode_reward"][over]
                mean = returns.mean().item() if returns.numel() else float("nan")
                speed = frames / (time.time() - started)
                self.writer.add_scalar("train/return", mean, frames)
                self.writer.add_scalar("train/loss", float(loss), frames)
                print(f"{frames:8d} frames  return {mean:8.2f}  {speed:6.0f} fps", flush=True)


if __name__ == "__main__":
    config = parse(sys.argv[1:])
    torch.manual_seed(config["seed"])
    Trainer(config).run()

import time

import torch
from omegaconf import OmegaConf
from tensordict.nn import TensorDictModule
from tensordict.nn.distributions import NormalParamExtractor
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from ks import KuramotoSivashinsky


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        self.env = KuramotoSivashinsky(**cfg.env)
        n_obs, n_act = cfg.env.n // 2, 8
        body = torch.nn.Sequential(
            MLP(in_features=n_obs, out_features=2 * n_act, num_cells=list(cfg.model.actor), activation_class=torch.nn.Tanh),
            NormalParamExtractor(),
        )
        self.actor = ProbabilisticActor(
            TensorDictModule(body, in_keys=["observation"], out_keys=["loc", "scale"]),
            in_keys=["loc", "scale"], spec=self.env.action_spec, distribution_class=TanhNormal,
            distribution_kwargs={"low": -1.0, "high": 1.0}, return_log_prob=True,
        )
        self.critic = ValueOperator(
            MLP(in_features=n_obs, out_features=1, num_cells=list(cfg.model.critic), activation_class=torch.nn.Tanh), in_keys=["observation"]
        )
        self.collector = Collector(self.env, self.actor, **cfg.collect, auto_register_policy_transforms=False)
        self.buffer = ReplayBuffer(
            storage=LazyTensorStorage(cfg.collect.frames_per_batch), sampler=SamplerWithoutReplacement(), batch_size=cfg.ppo.minibatch
        )
        self.gae = GAE(gamma=cfg.ppo.gamma, lmbda=cfg.ppo.lmbda, value_network=self.critic, average_gae=True)
        self.loss = ClipPPOLoss(self.actor, self.critic, clip_epsilon=cfg.ppo.clip, entropy_coeff=cfg.ppo.ent, critic_coeff=0.5)
        self.opt = torch.optim.Adam(self.loss.parameters(), lr=cfg.ppo.lr, fused=True)

    def learn(self, data):
        with torch.no_grad():
            self.gae(data)
        self.buffer.extend(data.reshape(-1))
        for _ in range(self.cfg.ppo.epochs):
            for mb in self.buffer:
                out = self.loss(mb)
                total = out["loss_objective"] + out["loss_critic"] + out["loss_entropy"]
                self.opt.zero_grad()
                total.backward()
                torch.nn.utils.clip_grad_norm_(self.loss.parameters(), 1.0)
                self.opt.step()

    def fit(self):
        frames, t0 = 0, time.time()
        for i, data in enumerate(self.collector):
            self.learn(data)
            frames += data.numel()
            if i % self.cfg.log_every == 0:
                print(f"{i:5d} {frames:9d} cost {-data['next', 'reward'].mean().item():.3f} {frames / (time.time() - t0):.0f} fps", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    Trainer(OmegaConf.load("conf.yaml")).fit()

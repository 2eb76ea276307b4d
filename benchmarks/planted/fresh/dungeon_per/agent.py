import numpy as np
import torch as th
from stable_baselines3 import DQN
from torch.nn import functional as F

from per import PrioritizedReplayBuffer


class PERDoubleDQN(DQN):
    def __init__(self, *args, beta_end=1.0, **kwargs):
        super().__init__(*args, replay_buffer_class=PrioritizedReplayBuffer, **kwargs)
        self.beta_end = beta_end

    def train(self, gradient_steps, batch_size=100):
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        buf = self.replay_buffer
        buf.beta = 0.4 + (self.beta_end - 0.4) * (1 - self._current_progress_remaining)
        losses = []
        for _ in range(gradient_steps):
            data = buf.sample(batch_size, env=self._vec_normalize_env)
            with th.no_grad():
                best = self.q_net(data.next_observations).argmax(1, keepdim=True)
                nxt = self.q_net_target(data.next_observations).gather(1, best)
                target = data.rewards + (1 - data.dones) * self.gamma * nxt
            q = self.q_net(data.observations).gather(1, data.actions.long())
            loss = (buf.last_weights * F.smooth_l1_loss(q, target, reduction="none")).mean()
            self.policy.optimizer.zero_grad()
            loss.backward()
            th.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            buf.update_priorities((target - q).detach().numpy().ravel())
            losses.append(loss.item())
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(att.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x))


class DecisionTransformer(nn.Module):
    def __init__(self, state_dim, act_dim, max_step, dim=32, layers=1, heads=2):
        super().__init__()
        self.embed_return = nn.Linear(1, dim)
        self.embed_state = nn.Linear(state_dim, dim)
        self.embed_action = nn.Linear(act_dim, dim)
        self.embed_time = nn.Embedding(max_step, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.predict_action = nn.Sequential(nn.Linear(dim, act_dim), nn.Tanh())

    def forward(self, states, actions, rtg, steps):
        """[b, k, .] each; tokens are (return, state, action) per step; predicts the action from the state token."""
        b, k, _ = states.shape
        time = self.embed_time(steps)
        tokens = torch.stack([self.embed_return(rtg) + time, self.embed_state(states) + time, self.embed_action(actions) + time], dim=2)
        x = self.norm(self.blocks(tokens.reshape(b, 3 * k, -1)))
        return self.predict_action(x.view(b, k, 3, -1)[:, :, 1])

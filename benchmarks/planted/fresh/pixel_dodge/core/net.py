import torch.nn as nn


def conv_q(n_actions):
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=3), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 5 * 5, 128), nn.ReLU(),
        nn.Linear(128, n_actions),
    )

"""Layers that are computed in C: a convolution of tokens, LSTM cells over whole sequences. Equal to what they stand for."""

import numpy as np
import pytest
import torch
from torch import nn

from hotlap.train import lstm_sequence, tokens
from hotlap.train.memory import Cell, Stack
from hotlap.train.tokens import EMPTY, MIDDLE, Box, Planes, WindowEncoder

SIDE = 11
PLANES = Planes([1.0, 200.0, 4.0, 255.0], categories=(2,))


def windows(rows=40, most=30, seed=0):
    """Random tokens, each (cell, feature) at most once; some name features and cells that there are not."""
    rng = np.random.default_rng(seed)
    obs = np.full((rows, most, 3), EMPTY, np.uint8)
    places = [(row << 4 | column, feature) for row in range(12) for column in range(12) for feature in range(5)]
    for row in range(rows):
        count = rng.integers(0, most + 1)
        chosen = rng.choice(len(places), count, replace=False)
        obs[row, :count, :2] = np.array(places, np.uint8)[chosen].reshape(-1, 2)
        obs[row, :count, 2] = rng.integers(0, 7, count)
        if count:
            obs[row, 0] = MIDDLE, 3, 51
    return torch.from_numpy(obs)


def slow_box(obs):
    """By the definition."""
    box = np.zeros((len(obs), PLANES.count, SIDE, SIDE), np.float32)
    for i, row in enumerate(obs.tolist()):
        for location, feature, value in row:
            cell = (SIDE // 2, SIDE // 2) if location == MIDDLE else (location >> 4, location & 15)
            if location == EMPTY or max(cell) >= SIDE or feature > 3:
                continue
            if feature == 2:  # a plane for each of the values 0 to 4
                if value <= 4:
                    box[i, 2 + value, *cell] = 1
            else:
                box[i, {0: 0, 1: 1, 3: 7}[feature], *cell] += value / {0: 1, 1: 200, 3: 255}[feature]
    return box


def test_the_box_that_tokens_stand_for():
    obs = windows()
    assert PLANES.count == 8
    np.testing.assert_allclose(Box(PLANES, SIDE)(obs).numpy(), slow_box(obs), rtol=1e-6)


@pytest.mark.parametrize("rows", [40, 700])  # in one thread, and in several
def test_a_convolution_of_tokens_is_one_of_their_box(rows):
    torch.manual_seed(0)
    obs = windows(rows)
    by_tokens, by_box = WindowEncoder(PLANES, SIDE), WindowEncoder(PLANES, SIDE, sparse=False)
    by_box.load_state_dict(by_tokens.state_dict())  # the same names and shapes
    assert by_tokens.features == 64 and by_tokens.first._by_tokens(obs)
    results = []
    for encoder in (by_tokens, by_box):
        out = encoder(obs)
        (out * torch.linspace(-1, 1, 64)).sum().backward()
        results.append([out.detach(), *(p.grad for p in encoder.parameters())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_without_a_compiler_there_is_the_box(monkeypatch):
    obs, encoder = windows(), WindowEncoder(PLANES, SIDE)
    expected = encoder(obs)
    monkeypatch.setattr(tokens, "_library", lambda: None)
    torch.testing.assert_close(encoder(obs), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layers", [1, 2])
def test_cells_over_sequences_against_a_loop_of_cells(layers, monkeypatch):
    torch.manual_seed(0)
    memory = Cell("lstm", 8) if layers == 1 else Stack("lstm", 8, layers)
    features = torch.randn(9, 5, 8, requires_grad=True)
    done = (torch.rand(9, 5) < 0.3).float()
    start = tuple(torch.randn(5, 8) for _ in range(2 * layers))
    results = []
    for fast in (True, False):
        monkeypatch.setattr(lstm_sequence, "usable", lambda x, fast=fast: fast)
        memory.zero_grad()
        features.grad = None
        out = memory.sequence(features, done, start)
        (out * torch.linspace(-1, 1, 8)).sum().backward()
        results.append([out.detach(), features.grad, *(p.grad.clone() for p in memory.parameters())])
        with torch.no_grad():
            results[-1] += memory(features[0], start)[1]
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_two_layers_against_torch():
    torch.manual_seed(0)
    memory, whole = Stack("lstm", 8, 2), nn.LSTM(8, 8, 2)
    for number, layer in enumerate(memory.layers):
        for name, value in layer.cell.named_parameters():
            getattr(whole, f"{name}_l{number}").data.copy_(value)
    features = torch.randn(6, 3, 8)
    expected, _ = whole(features)
    torch.testing.assert_close(memory.sequence(features, torch.zeros(6, 3), memory.initial(3)), expected, rtol=1e-4, atol=1e-5)


def test_mixed_precision_takes_the_loop():
    memory = Cell("lstm", 8)
    with torch.autocast("cpu", torch.bfloat16):
        out = memory.sequence(torch.randn(3, 2, 8), torch.zeros(3, 2), memory.initial(2))
    assert out.grad_fn.name() == "StackBackward0"

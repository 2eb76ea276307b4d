"""Networks by name and from a declaration, encoders of all kinds of observations, policies without environments."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

import hotlap
from hotlap.core.clock import StageClock
from hotlap.envs.spec import EnvSpec
from hotlap.envs.vector import make_gym
from hotlap.train import dqn, ppo
from hotlap.train.encoders import Flatten, GridEncoder, PixelEncoder, Sparse, auto_encoder, vector_encoder
from hotlap.train.nets import NETS, QNETS, Policy, policy_of
from hotlap.train.sparse import SparseLinear

SMALL = ppo.Config(num_envs=4, horizon=16, batch_size=32, epochs=2, hidden=(16, 16), total_steps=10_000)
BOARD = EnvSpec.dense((6, 7, 2), 0, 1, "|u1", actions=7)


# -- encoders --


@pytest.mark.parametrize("shape", [(84, 84, 4), (4, 84, 84)])
def test_images_are_scaled(shape):
    net = Policy(auto_encoder(EnvSpec.dense(shape, 0, 255, "|u1", actions=3)), 3, (16,))
    bright = torch.full((2, *shape), 255, dtype=torch.uint8)
    assert isinstance(net.encoder, PixelEncoder)
    first = net.encoder.convolutions[0]
    seen = []
    first.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    output, value, _ = net(bright)
    assert output.shape == (2, 3) and value.shape == (2,)
    assert seen[0].shape == (2, 4, 84, 84) and seen[0].max() == 1.0


@pytest.mark.parametrize("dtype", [np.int16, np.int32])
def test_sparse_observations_are_expanded(dtype):
    """A row: how many ones, where they are, and the size in the places that are left."""
    encoder = vector_encoder(EnvSpec.sparse(5, 3, actions=2))
    assert isinstance(encoder, Sparse) and encoder.features == 5 and not encoder.learns
    rows = np.array([[3, 0, 2, 4], [1, 1, 5, 5], [0, 5, 5, 5]], dtype)
    expected = [[1, 0, 1, 0, 1], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0]]
    dense = encoder(torch.from_numpy(rows))
    assert dense.dtype == torch.float32 and dense.tolist() == expected


def test_which_encoder():
    for spec, auto, mlp in (
        (BOARD, GridEncoder, Flatten),
        (EnvSpec.dense((3,), actions=2), Flatten, Flatten),
        (EnvSpec.dense((2, 3), actions=2), Flatten, Flatten),
        (EnvSpec.sparse(9, 2, actions=2), Sparse, Sparse),
    ):
        encoders = auto_encoder(spec), vector_encoder(spec)
        assert [type(encoder) for encoder in encoders] == [auto, mlp]
        dtype = torch.from_numpy(np.zeros(0, spec.obs_dtype)).dtype
        for encoder in encoders:
            assert encoder(torch.zeros(2, *spec.obs_shape, dtype=dtype)).shape == (2, encoder.features)


class Lights(gymnasium.Env):
    """One of six lights is on; the action names it. Sparse or dense observations of the same."""

    action_space = gymnasium.spaces.Discrete(6)

    def __init__(self, sparse):
        self.sparse = sparse
        self.env_spec = EnvSpec.sparse(6, 2, actions=6) if sparse else EnvSpec.dense((6,), 0, 1, "|u1", actions=6)
        self.observation_space = self.env_spec.observation_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._observe(), {}

    def step(self, action):
        reward = float(action == self.light)
        self.time += 1
        return self._observe(), reward, self.time == 4, False, {}

    def _observe(self):
        self.light = int(self.np_random.integers(6))
        return np.array([1, self.light, 6], np.int16) if self.sparse else np.eye(6, dtype=np.uint8)[self.light]


@pytest.mark.parametrize("changes", [{"num_envs": 80}, {"memory": "lstm"}, {"memory": "gru"}])
def test_sparse_and_dense_observations_learn_the_same(changes):
    config = replace(SMALL, **changes)
    learned = []
    for sparse in (True, False):
        env = make_gym(lambda sparse=sparse: Lights(sparse), config.num_envs, seed=0, depth=17)
        state = ppo.start(config, env)
        for _ in range(2):
            ppo.iterate(state, config, env, StageClock())
        assert ppo.evaluate(state, make_gym(lambda sparse=sparse: Lights(sparse), 2), 0)["length"].tolist() == [4, 4]
        learned.append(
            [
                parameter.t() if type(module) is SparseLinear else parameter
                for module in state.net.modules()
                for parameter in module.parameters(recurse=False)
            ]
        )
    for one, other in zip(*learned, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_sparse_observations_are_not_normalized():
    with pytest.raises(ValueError, match="normalize-obs does not work with sparse"):
        ppo.start(replace(SMALL, normalize_obs=True), make_gym(lambda: Lights(True), 4))


# -- networks by name --


@pytest.mark.parametrize("name", ["auto", "mlp"])
def test_networks_of_both_trainers_by_name(name):
    obs = torch.zeros(2, 6, 7, 2, dtype=torch.uint8)
    output, value, _ = ppo.make_net(replace(SMALL, net=name), BOARD)(obs)
    assert output.shape == (2, 7) and value.shape == (2,)
    assert dqn.make_net(dqn.Config(net=name, hidden=(16,)), BOARD)(obs).shape == (2, 7)
    for make, config in ((ppo.make_net, SMALL), (dqn.make_net, dqn.Config())):
        with pytest.raises(ValueError, match="net must be one of auto, mlp, not 'cnn'"):
            make(replace(config, net="cnn"), BOARD)


class Parity(Flatten):
    """An encoder that a system might add: the sum of the observation."""

    def __init__(self, shape):
        super().__init__(shape)
        self.features = 1

    def forward(self, obs):
        return super().forward(obs).sum(1, keepdim=True)


def parity(config, spec, outputs, deviations):
    return policy_of(config, Parity(spec.obs_shape), outputs, deviations)


def test_a_system_adds_a_network():
    config = replace(SMALL, net="parity")
    env = make_gym(lambda: Lights(False), 4, seed=0)
    state = ppo.start(config, env, {**NETS, "parity": parity})
    ppo.iterate(state, config, env, StageClock())
    assert state.net.actor[0].in_features == 1 and torch.isfinite(state.flat).all()
    assert list(NETS) == list(QNETS) == ["auto", "mlp"]


# -- a policy without environments --


@pytest.mark.parametrize("changes", [{}, {"memory": "lstm"}, {"memory": "attention"}, {"normalize_obs": True}])
def test_a_saved_policy_acts_as_the_trainer_does(changes):
    config = replace(SMALL, turbo=True, **changes)
    env = hotlap.make_vec("cartpole", 4, seed=0, depth=17)
    state = ppo.start(config, env)
    for _ in range(3):
        ppo.iterate(state, config, env, StageClock())
    arrays = {name: np.array(array) for name, array in ppo.save_state(state, env)[0].items()}
    policy = ppo.load_policy(config, env.env_spec, NETS, arrays)
    moments, memory, remembered = state.obs_moments, (), ()
    for obs in torch.randn(5, 64, 4, generator=torch.Generator().manual_seed(0)):
        action, memory = policy(obs, None, memory)
        with torch.no_grad():
            seen = obs if moments is None else moments.normalize(obs)
            output, _, remembered = state.net(seen, remembered)
        assert torch.equal(action, output.argmax(-1))
    mask = torch.zeros(64, 2, dtype=torch.bool)
    mask[:, 1] = True
    assert (policy(obs, mask, ())[0] == 1).all()
    assert len(memory) == len(state.rollout.memory)

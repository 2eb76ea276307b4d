"""Kernels on a CUDA GPU against the CPU: every array and every state, to the bit."""

from random import Random

import numpy as np
import pytest
import torch

import hotlap
from hotlap.core import nvrtc
from hotlap.core.errors import KernelError
from hotlap.envs import GAMES, load_game
from hotlap.envs.buffers import Arrays
from hotlap.envs.device import DeviceEngine, device_arrays
from hotlap.envs.engine import FILLED, NativeEngine
from hotlap.envs.layout import draw_legal
from hotlap.envs.predators.maps import DEFAULT_MAP
from hotlap.envs.start import encode
from tests.mettagrid_maps import CROWDED
from tests.petri_nets import LARGEST, random_net
from tests.toy_games import TOYS

OPTIONS = {
    "snake": [{"features": f, "size": s} for f, s in (("basic", 10), ("flood", 10), ("flood", 5), ("grid", 17))],
    "hearts": [
        {"observation": "sparse"},
        {"observation": "dense", "pass_cards": False, "can_lead_any_club": True},
        {"observation": "bytes", "jd_bonus": True, "avoid_all_tricks_bonus": True, "must_break_hearts": False},
        {"observation": "relative"},
        {"observation": "sparse", "history": 5},
    ],
    "predators": [{}, {"agents": 16, "prey": 30}, {"agents": 2, "prey": 1, "map": "....#..\n.......\n..#...."}],
    "cage2": [
        {"red": "mixed", "episode_length": 50},
        {"red": "meander", "observation": "scans", "actions": "merged"},
        {"red": "mixed", "observation": "history", "actions": "merged"},
        {"red": "b_line+meander", "observation": "truth", "actions": "distinct"},
    ],
    "petri": [{}, {"wafers": 4, "features": "places", "stop_when_dead": True}],
    "mettagrid": [
        {"generator": "rooms"},
        {"task": "arena", "agents": 3, "map": CROWDED, "max_steps": 500},
        {"task": "arena", "agents": 20, "generator": "maze", "tokens": 40, "max_steps": 300},
        {"agents": 1, "rows": 9, "columns": 9, "objects": {"wall": 1, "altar": 1}},
    ],
}
CASES = [(name, options) for name in [*GAMES, *TOYS] for options in OPTIONS.get(name, [{}])]
FINAL = ("final_obs", "episode_return", "episode_length", "episode_metrics", "final_seat", "episode_returns")

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(nvrtc.missing()), reason=f"needs a CUDA GPU: {nvrtc.missing()}")]
CUDA = torch.device("cuda", 0)


class Both:
    """One game on both devices, given the same seeds, starts and actions."""

    def __init__(self, name, options, num_envs, block=128, threads=1):
        self.game = TOYS[name](**options) if name in TOYS else load_game(name)(**options)
        self.spec, self.num_envs = self.game.env_spec, num_envs
        self.arrays = Arrays(self.spec, num_envs * self.spec.agents, 2)
        self.cpu = NativeEngine(self.game, self.arrays.actions, threads, self.arrays.buffers)
        self.on_gpu = device_arrays(self.spec, num_envs * self.spec.agents, 2, CUDA)
        self.gpu = DeviceEngine(self.game, self.on_gpu, block)
        self.slot = 0

    def reset(self, seed=None, each=None):
        rows = len(self.arrays.actions)
        seeds = None if seed is None else np.arange(seed, seed + rows, dtype=np.uint64)
        self.slot = 1 - self.slot
        for engine in (self.cpu, self.gpu):
            engine.reset(seeds, encode(self.game, each), self.slot)
        self.compare()

    def step(self, random):
        actions = draw_legal(self.game.action_space, self.arrays.buffers[self.slot].mask, random)
        self.arrays.actions[:] = actions
        self.on_gpu.actions.copy_(torch.from_numpy(actions))
        self.slot = 1 - self.slot
        ended = self.cpu.step(self.slot)
        assert self.gpu.step(self.slot) and not self.gpu.refused and ended >= 0
        return ended

    def compare(self):
        here, there = self.arrays.buffers[self.slot], self.on_gpu.buffers[self.slot]
        over = here.terminated | here.truncated
        for name in FILLED:
            one, other = getattr(here, name), getattr(there, name).cpu().numpy()
            if one.size and name in FINAL:
                one, other = one[over], other[over]
            assert one.tobytes() == other.tobytes(), name
        for name, array in self.cpu.state().items():
            np.testing.assert_array_equal(array, self.gpu.state()[name], name)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_cuda_equals_cpu(name, options):
    both = Both(name, options, 1_000)
    random, ended = np.random.default_rng(0), 0
    both.reset(seed=5)
    for number in range(2_000):
        ended += both.step(random)
        if number < 200 or number % 20 == 0:
            both.compare()
    both.compare()
    assert ended > 1_000
    both.reset()  # going on with the random numbers that are left


@pytest.mark.parametrize("num_envs", [1, 31, 127, 128, 129, 1_025])
@pytest.mark.parametrize("block", [32, 128, 256])
def test_the_edges_of_blocks(num_envs, block):
    both = Both("snake", {}, num_envs, block)
    both.reset(seed=1)
    random = np.random.default_rng(1)
    for _ in range(20):
        both.step(random)
        both.compare()


def test_starts_and_tables_per_environment():
    both = Both("walk", {}, 300)
    random = np.random.default_rng(2)
    both.reset(seed=3, each=[None if i % 3 else {"position": i % 11} for i in range(300)])
    for _ in range(30):
        both.step(random)
        both.compare()
    both.reset(each=[{"prizes": random.normal(size=12).tolist()} if i % 2 else None for i in range(300)])
    for _ in range(100):
        both.step(random)
        both.compare()
    assert len(both.cpu.tables.arrays["prizes"]) == 300


def test_a_different_petri_net_in_each_environment():
    choose, random = Random(0), np.random.default_rng(4)
    both = Both("petri", {"net": random_net(choose), "max_time": 300, **LARGEST}, 300)
    both.reset(seed=0, each=[{"net": random_net(choose)} if i % 5 else None for i in range(300)])
    for _ in range(200):
        both.step(random)
        both.compare()


def test_fixed_starts_of_games():
    board = {"board": {"body": [(5, 5), (5, 4), (5, 3)], "food": (5, 7)}}
    starts = {
        "snake": board,
        "cartpole": {"state": (0.1, -0.2, 0.05, 0.3)},
        "connect4": {"moves": [3, 3, 2]},
        "predators": {"map": DEFAULT_MAP.replace("##", "..")},
    }
    for name, options in starts.items():
        both = Both(name, {}, 64)
        both.reset(seed=0, each=[options if i % 2 else None for i in range(64)])
        random = np.random.default_rng(3)
        for _ in range(50):
            both.step(random)
            both.compare()


def test_illegal_actions_are_seen():
    both = Both("walk", {}, 3)
    both.reset(seed=0, each=[{"position": 0}] * 3)
    both.on_gpu.actions.copy_(torch.tensor([[0, 0], [2, 0], [0, 0]]))
    before = both.gpu.state()["envs"]
    both.gpu.step(1 - both.slot)
    assert int(both.gpu.refused) == 2  # the second one, which has not moved
    after = both.gpu.state()["envs"]
    assert (after[1] == before[1]).all() and (after[0] != before[0]).any()


@pytest.mark.parametrize("name", ["snake", "hearts", "predators", "mettagrid"])
def test_a_vector_environment_on_the_gpu_is_the_one_on_the_cpu(name):
    cpu, gpu = hotlap.make_vec(name, 500, seed=3), hotlap.make_vec(name, 500, seed=3, device="cuda")
    random, episodes = np.random.default_rng(0), 0
    obs, info = cpu.reset()
    there, _ = gpu.reset()
    for number in range(1_200):
        np.testing.assert_array_equal(obs, there.cpu().numpy())
        actions = draw_legal(cpu.single_action_space, cpu.outcome(0)[0].mask, random)
        obs, reward, terminated, truncated, info = cpu.step(actions)
        there, *results, told = gpu.step(torch.from_numpy(actions).cuda() if number % 2 else actions)
        for one, other in zip((reward, terminated, truncated), results, strict=True):
            np.testing.assert_array_equal(one, other.cpu().numpy())
        if "_final_info" in info:
            ended = info["_final_info"]
            episodes += ended.sum()
            np.testing.assert_array_equal(ended, told["_final_info"].cpu().numpy())
            for key, values in info["final_info"].items():
                np.testing.assert_array_equal(values[ended], told["final_info"][key].cpu().numpy()[ended])
    assert episodes > 100
    saved = cpu.state()
    for key, array in gpu.state().items():
        np.testing.assert_array_equal(saved[key], array, key)
    gpu.reset(seed=9)
    np.testing.assert_array_equal(gpu.load_state(saved).cpu().numpy(), obs)  # a run moves from one to the other
    gpu.check_actions()


def test_wrong_actions_of_a_vector_environment():
    env = hotlap.make_vec("snake", 4, seed=0, device="cuda")
    with pytest.raises(RuntimeError, match="reset"):
        env.step([0, 0, 0, 0])
    env.reset()
    for wrong in ([0.0] * 4, [0, 0], [True] * 4):
        with pytest.raises(ValueError, match="must be 4 whole numbers"):
            env.step(wrong)
    env.step([0, 7, 0, 0])
    with pytest.raises(ValueError, match="an action of environment 1 is illegal or outside"):
        env.check_actions()


@pytest.mark.parametrize("make", [nvrtc._of_cuda_core, nvrtc._of_cupy])
def test_both_ways_to_nvrtc(make):
    name = {"_of_cuda_core": "cuda.core", "_of_cupy": "cupy"}[make.__name__]
    pytest.importorskip(name)
    code = 'extern "C" __global__ void add(const float *x, float *y, long long n, float by) {' + (
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i] * by + 1; }"
    )
    x, y = torch.rand(1000, device="cuda"), torch.zeros(1000, device="cuda")
    add = make()(code, "")("add")
    add(8, 128, [nvrtc._argument(value) for value in (x, y, 1000, 3.0)])
    torch.testing.assert_close(y, (x * 3.0) + 1.0)
    with pytest.raises(KernelError, match="NVRTC cannot compile"):
        make()("this is not CUDA", "")

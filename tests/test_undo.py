"""Every change is undone: what torch, gymnasium, the standard library and the process are before it, they are after it.

`state()` looks at attributes by identity, raw as they stand in `__dict__`, and at settings that are no attributes. Leaky
changes are planted to see that each kind of leak is reported.
"""
# ruff: noqa: NPY002 - scripts use numpy's old random numbers, so changes touch them

import gc
import importlib.util
import io
import logging
import os
import random
import sys
import time
from types import ModuleType

import gymnasium
import numpy as np
import pytest
import torch

from hotlap import interventions
from hotlap.interventions.changing import changed

MODULES = ["torch", "torch.autograd", "torch.cuda", "torch.distributions", "torch.distributions.distribution", "torch.nn"]
MODULES += ["torch.optim", "torch.random", "torch.utils.tensorboard.writer", "gymnasium", "gymnasium.vector", "numpy.random"]
MODULES += ["gymnasium.wrappers", "gymnasium.utils.seeding", "_io", "gc", "io", "logging", "os", "random", "sys", "time"]
SB3 = ["buffers", "base_class", "callbacks", "logger", "off_policy_algorithm", "vec_env"]
if importlib.util.find_spec("stable_baselines3"):
    MODULES += [f"stable_baselines3.common.{name}" for name in SB3]
MODULES += [name for name in ("cv2", "pygame") if importlib.util.find_spec(name)]
OPTIONS = {"threads": {"number": 1}, "affinity": {"cores": [0]}, "peel": {"names": ["Loud"]}, "seed": {"offset": 3}}
OPTIONS |= {"source": {"texts_in": ""}, "autocast": {"device": "cpu"}}
FORK_HOOKS = []  # what was given to os.register_at_fork
_VOLATILE = {"last_exc", "last_type", "last_value", "last_traceback", "__warningregistry__", "_abc_impl"}


def state():
    """Attributes of modules and of their classes, and settings, by name."""
    attributes = {}
    owners = {name: importlib.import_module(name) for name in MODULES}
    for name, module in list(owners.items()):
        classes = [value for value in vars(module).values() if isinstance(value, type)]
        owners |= {f"{name}.{c.__qualname__}": c for c in classes if c.__module__.partition(".")[0] == name.partition(".")[0]}
    for name, owner in owners.items():
        for attribute, value in list(vars(owner).items()):
            if attribute not in _VOLATILE and not isinstance(value, ModuleType):  # torch imports some of its modules late
                attributes[f"{name}.{attribute}"] = value
    return attributes, settings()


def settings():
    return {
        "torch threads": torch.get_num_threads(),
        "matmul precision": torch.get_float32_matmul_precision(),
        "default dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "gradients": torch.is_grad_enabled(),
        "torch random state": torch.get_rng_state().tolist(),
        "numpy random state": str(np.random.get_state()),
        "python random state": random.getstate(),
        "environment variables": dict(os.environ),
        "import finders": [id(finder) for finder in sys.meta_path],
        "fork hooks": len(FORK_HOOKS),
        "cores": os.sched_getaffinity(0),
        "bytecode": sys.dont_write_bytecode,
        "garbage collection": (gc.isenabled(), gc.get_threshold()),
        "log level": logging.root.level,
    }


def leaks(before, after):
    """What differs, by name."""
    (old, was), (new, is_now) = before, after
    names = [name for name in old.keys() | new.keys() if old.get(name, leaks) is not new.get(name, leaks)]
    return sorted(names) + sorted(name for name in was if was[name] != is_now[name])


def step(self, action):
    return 0, 1.0, False, False, {"much": "to say"}


def reset(self, *, seed=None, options=None):
    return 0, {}


def render(self):
    return np.zeros((2, 2))


def reward(self, reward):
    return 2 * reward


def loud_init(self, env, times=2):
    gymnasium.RewardWrapper.__init__(self, env)
    self.times = times


ENV = {"step": step, "reset": reset, "render": render, "observation_space": gymnasium.spaces.Discrete(2)}
ENV["action_space"] = ENV["observation_space"]
WRAPPER = {"reward": reward, "__init__": loud_init}


def exercise():
    """A little of everything that changes replace; gives the classes that it has defined. Random states are put back."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    env_class = type("Talks", (gymnasium.Env,), dict(ENV))
    wrapper_class = type("Loud", (gymnasium.RewardWrapper,), dict(WRAPPER))
    env = wrapper_class(env_class(), times=3)
    env.reset(seed=1)
    env.step(0)
    env.render()
    vector = gymnasium.vector.SyncVectorEnv([env_class, env_class])
    vector.reset(seed=1)
    vector.close()
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    torch.set_num_threads(torch.get_num_threads())
    net = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(net.double().float().parameters())
    with torch.compiler.set_stance("force_eager"):
        net(torch.from_numpy(np.zeros((1, 2))).float()).sum().backward()
    optimizer.step()
    torch.distributions.Categorical(logits=torch.zeros(2)).sample()
    torch.save({}, io.BytesIO())
    torch.zeros(2, dtype=torch.float64).to(torch.float64)
    logging.getLogger("hotlap.test").debug("nothing to see")
    time.sleep(0)
    gc.collect()
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    return env_class, wrapper_class


def leaks_of(name, function, **options):
    """What a change leaves behind: around it, and on classes that were defined while it was made."""
    before = state()
    with changed(name, function, **options):
        classes = exercise()
    leaked = leaks(before, state())
    for cls, namespace in zip(classes, (ENV, WRAPPER), strict=True):
        plain = type(cls.__name__, cls.__bases__, dict(namespace))
        leaked += [f"{cls.__name__}.{key}" for key in vars(cls).keys() ^ vars(plain).keys()]
        leaked += [f"{cls.__name__}.{key}" for key, value in namespace.items() if vars(cls).get(key) is not value]
    env = classes[1](classes[0](), times=3)
    assert env.step(0) == (0, 2.0, False, False, {"much": "to say"}) and env.times == 3
    return leaked


@pytest.fixture(scope="module", autouse=True)
def _warm():
    """What is imported late is imported now: torch's compiler, for one, changes other parts of torch."""
    with torch.compiler.set_stance("force_eager"):
        net = torch.nn.Linear(1, 1)
        net.compile()
        net(torch.zeros(1, 1))
    exercise()
    state()


@pytest.fixture(autouse=True)
def _fork_hooks(monkeypatch):
    """Hooks for forks are written down: Python cannot list them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(max(2, threads))  # so that one thread is a change
    monkeypatch.setattr(os, "register_at_fork", lambda **hooks: FORK_HOOKS.append(hooks))
    yield
    FORK_HOOKS.clear()
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", interventions.CHANGES)
def test_every_change_is_undone(name):
    assert leaks_of(name, interventions.CHANGES[name], **OPTIONS.get(name, {})) == []


def leak_function(change):
    torch.save = lambda *_: None


def leak_method(change):
    torch.nn.Module.double = lambda self: self


def leak_on_subclasses(change):
    def alter(cls):
        if "render" in cls.__dict__:
            cls.render = lambda self: None

    change.for_each_subclass(gymnasium.Env, alter)


def leak_constructor(change):
    def alter(cls):
        cls.__new__ = staticmethod(lambda cls, *_, **__: object.__new__(cls))

    change.for_each_subclass(gymnasium.Wrapper, alter)


def leak_threads(change):
    torch.set_num_threads(1)


def leak_precision(change):
    torch.set_float32_matmul_precision("medium")


def leak_dtype(change):
    torch.float64 = torch.float32


def leak_seed(change):
    random.seed(12345)


def leak_variable(change):
    os.environ["HOTLAP_LEAK"] = "1"


def leak_finder(change):
    sys.meta_path.append(type("Finder", (), {"find_spec": staticmethod(lambda *_: None)}))


def leak_fork_hook(change):
    os.register_at_fork(after_in_child=lambda: None)


def leak_patch(change):
    change.when_imported("time", lambda module: setattr(module, "sleep", lambda seconds: None))


LEAKS = {
    leak_function: "torch.save",
    leak_method: "torch.nn.Module.double",
    leak_on_subclasses: "Talks.render",
    leak_constructor: "Loud.__new__",
    leak_threads: "torch threads",
    leak_precision: "matmul precision",
    leak_dtype: "torch.float64",
    leak_seed: "python random state",
    leak_variable: "environment variables",
    leak_finder: "import finders",
    leak_fork_hook: "fork hooks",
    leak_patch: "time.sleep",
}


@pytest.mark.parametrize(("leaky", "name"), LEAKS.items(), ids=[leaky.__name__ for leaky in LEAKS])
def test_a_leak_is_reported(leaky, name, monkeypatch):
    known, dtype, random_state = dict(os.environ), torch.float64, random.getstate()
    threads, finders, precision = torch.get_num_threads(), list(sys.meta_path), torch.get_float32_matmul_precision()
    monkeypatch.setattr(torch, "save", torch.save)  # put back at the end, as all that is planted here
    monkeypatch.setattr(time, "sleep", time.sleep)
    monkeypatch.setattr(torch.nn.Module, "double", torch.nn.Module.double)
    try:
        assert name in leaks_of("leaky", leaky)
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
        torch.float64 = dtype
        random.setstate(random_state)
        os.environ.pop("HOTLAP_LEAK", None)
        sys.meta_path[:] = finders
    assert dict(os.environ) == known


def test_a_change_that_fails_leaves_nothing():
    before = state()

    def fails(change):
        change.set(torch, "save", None)
        change.setenv("HOTLAP_LEAK", "1")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"), changed("fails", fails):
        pass
    assert leaks(before, state()) == []


def test_a_module_that_is_imported_later_stays_as_it_is(tmp_path, monkeypatch):
    (tmp_path / "late_module.py").write_text("word = 'as it is'\n")
    monkeypatch.syspath_prepend(tmp_path)

    def patch(change):
        change.when_imported("late_module", lambda module: change.set(module, "word", "changed"))

    with changed("late", patch):
        module = importlib.import_module("late_module")
        assert module.word == "changed"
    assert module.word == "as it is"
    importlib.reload(module)
    assert module.word == "as it is"
    del sys.modules["late_module"]

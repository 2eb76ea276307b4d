"""core.c against the Python hooks that it stands for: the same events, and nothing that a script could notice."""

import copy
import gc
import inspect
import pickle
import struct
import types

import gymnasium
import numpy as np
import pytest
import torch

from hotlap.probe import alive, core
from hotlap.probe.events import Events
from hotlap.probe.hooks import environments as on_environments
from hotlap.probe.hooks import patching as hooks
from hotlap.probe.hooks import torch as on_torch
from hotlap.probe.kinds import ENDED, REGION, STEPPED

native = pytest.mark.skipif(core._native is None, reason="no compiler, or no headers of Python")
MAKERS = ("forward", "step", "region", "unless")


class Inner(gymnasium.Env):
    def reset(self, *, seed=None, options=None):
        self.time = 0
        return np.zeros(2), {}

    def step(self, action):
        self.time += 1
        if action == 9:
            raise ValueError("no such action")
        return np.zeros(2), 1.0, self.time % 3 == 0, False, {}


class Outer(gymnasium.Wrapper):
    def step(self, action):
        return self.env.step(action)


class Vector:
    num_envs = 4

    def __init__(self, results):
        self.results = iter(results)

    def reset(self):
        return None

    def step(self, action):
        return next(self.results)


class Around:
    """A wrapper that complains when it is asked for what it does not have itself, as Gymnasium's did for a while."""

    def __init__(self, env):
        self.env = env

    def step(self, action):
        return self.env.step(action)

    def reset(self):
        return self.env.reset()

    def __getattr__(self, name):
        raise AssertionError(f"asked for {name}")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x, scale=1.0):
        return self.layer(x) * scale


def helper(number, twice=False):
    """Says what it does."""
    if number < 0:
        raise ValueError("negative")
    return number * (2 if twice else 1)


@pytest.fixture(params=["python", pytest.param("c", marks=native)])
def events(request, monkeypatch):
    """Started events, with hooks made in Python or in C, and everything put back afterwards."""
    if request.param == "python":
        for name in MAKERS:
            monkeypatch.setattr(core, name, lambda state, original, slow, *_: slow)
    for owner, names in (
        (Inner, ("step", "reset")),
        (Outer, ("step",)),
        (Vector, ("step", "reset")),
        (Around, ("step", "reset")),
    ):
        for name in names:
            monkeypatch.setattr(owner, name, owner.__dict__[name])
    monkeypatch.setattr(torch.nn.Module, "__call__", inspect.unwrap(torch.nn.Module.__dict__["__call__"]))
    events = Events()
    events.start(lambda _: None)
    return events


def kinds(events):
    """The events without their times, environments by the order in which they came."""
    names = {}
    seen = []
    for kind, begin, end, first, second in struct.iter_unpack("5q", events.take()):
        assert begin <= end
        seen.append((kind, names.setdefault(first, len(names)) if kind in (STEPPED, ENDED) else first, second))
    return seen


def hook_environments(events):
    for base in (Inner, Outer, Vector):
        on_environments.patch_environments(base, events)


def test_wrappers_are_not_asked_for_what_they_wrap(events):
    on_environments.patch_environments(Around, events)
    quiet, over = np.zeros(4, dtype=bool), np.array([False, True, False, False])
    env = Around(Around(Vector([(0, np.zeros(4), done, quiet, {}) for done in (quiet, over)])))
    env.reset()
    for _ in range(2):
        env.step(0)
    assert events.env_steps == 8
    single = Around(Around(Inner()))
    single.reset()
    single.step(0)
    assert events.env_steps == 9


def test_environments(events):
    hook_environments(events)
    env = Outer(Inner())
    env.env.reset()
    events.take()
    for _ in range(7):
        env.step(0)
    with pytest.raises(ValueError, match="no such action"):
        env.step(9)
    env.step(action=1)
    steps = [(STEPPED, 0, 1)]
    ends = [(ENDED, 0, 0)]
    assert kinds(events) == [*steps * 3, *ends, *steps * 3, *ends, *steps, (STEPPED, 0, 0), *steps, *ends]
    assert events.env_steps == 8
    assert not events.inside and events.region == ""


def test_vector_environments(events):
    hook_environments(events)
    no, some = np.zeros(4, bool), np.array([False, True, False, True])
    results = [
        (no, no, no, no, {}),
        (no, no, some, no, {}),
        (no, no, no, some, {}),
        (no, no, some, [{}]),
        (no, no, np.zeros((4, 2), bool)[:, 0], no, {}),
        (no, no, [False, True, False, False], {}),
        None,
        "odd",
    ]
    env = Vector(results)
    for expected in results:
        assert env.step(np.zeros(4)) is expected
    assert [k for k in kinds(events) if k[0] == ENDED] == [(ENDED, 0, which) for which in (1, 3, 1, 3, 1, 3, 1)]
    assert events.env_steps == 4 * len(results)


def test_forward_passes(events):
    on_torch._patch_modules(torch, events)
    net = Net()
    with torch.no_grad():
        net(torch.zeros(5, 3))
    net(torch.zeros(7, 3))
    net(x=torch.zeros(6, 3))
    net(torch.zeros(4, 3), scale=2.0)
    with pytest.raises(RuntimeError):
        net(torch.zeros(5, 4))
    assert kinds(events) == [(5, 5, 0), (6, 7, 0), (6, 6, 0), (6, 4, 0), (6, 5, 0)]
    net.compile(backend="eager")
    assert net(torch.zeros(2, 3)).shape == (2, 2)
    assert kinds(events) == [(6, 2, 0)]


def test_regions_and_syncs(events):
    call = hooks.as_region(events, "log")(helper)
    assert call(3) == 3 and call(3, twice=True) == 6
    with pytest.raises(ValueError, match="negative"):
        call(-1)
    number = kinds(events)[0][1]
    events.syncs = 2
    call(1)
    assert [k for k, *_ in kinds(events)] == [16, REGION]
    events.inside = True
    call(1)
    assert kinds(events) == []
    events.inside, events.thread = False, 0  # measured on another thread
    call(1)
    assert kinds(events) == []
    assert number >= 0


def test_a_pause_counts_and_evaluation_does_not(events):
    hook_environments(events)
    env = Outer(Inner())
    env.env.reset()
    evaluate = hooks.as_region(events, "evaluate")(lambda: [env.step(0) for _ in range(2)])
    events.take()
    events.inside = events.paused = True
    events.due = 2**62
    for _ in range(3):
        env.step(0)
    evaluate()
    events.updated = True
    env.step(0)
    assert kinds(events) == [(STEPPED, 0, 1)] * 3 + [(ENDED, 0, 0), (STEPPED, 0, 1), (ENDED, 0, 0)]
    assert events.inside and events.paused and not events.updated


@native
def test_a_hook_looks_like_its_function():
    events = Events()
    module = types.ModuleType("made_for_this")
    exec("def work(number, twice=False):\n    'Says what it does.'\n    return number", module.__dict__)
    original = module.work
    hooks.wrap(module, "work", hooks.as_region(events, "log"))
    hook = module.work
    assert type(hook).__name__ == "Hook" and hook is not original
    assert inspect.isfunction(hook) and callable(hook)
    assert str(inspect.signature(hook)) == "(number, twice=False)"
    assert (hook.__name__, hook.__doc__, hook.__code__) == ("work", "Says what it does.", original.__code__)
    assert copy.deepcopy(hook) is hook
    hook.note = 1
    assert hook.note == 1 and not hasattr(original, "note")
    assert inspect.unwrap(hook) is original


@native
def test_a_hook_travels_by_name(monkeypatch):
    monkeypatch.setitem(globals(), "helper", helper)
    hooks.wrap(inspect.getmodule(test_a_hook_travels_by_name), "helper", hooks.as_region(Events(), "log"))
    assert pickle.loads(pickle.dumps(helper)) is helper  # noqa: S301


@native
def test_functions_of_the_script_itself_stay_python(monkeypatch):
    monkeypatch.setattr(helper, "__module__", "__main__")
    assert isinstance(hooks.as_region(Events(), "log")(helper), types.FunctionType)
    assert type(hooks.as_region(Events(), "log")(helper)) is types.FunctionType


@native
def test_a_hook_is_freed():
    import gc
    import weakref

    hook = hooks.as_region(Events(), "log")(lambda: None)
    hook.itself = hook
    alive = weakref.ref(hook)
    del hook
    gc.collect()
    assert alive() is None


@native
def test_objects_of_some_classes_are_found_alike():
    class Derived(Net):
        pass

    made = [Net(), Derived(), Inner(), Outer(Inner())]
    objects = [*made, *gc.get_objects(), *made]
    for wanted in ((), (Net,), (Net, Outer, torch.nn.Linear), tuple({type(item) for item in objects[:20_000]})):
        assert list(map(id, core.instances(objects, wanted))) == list(map(id, core._instances(objects, wanted)))
    assert core.instances(made, (Net, Inner)) == [made[0], made[2]]  # not of classes derived from them
    for wrong in (([], [Net]), ((), (Net,)), ([],)):
        with pytest.raises(TypeError):
            core.instances(*wrong)


class Holder:
    """Refers to itself, as what it holds may do too."""

    def __init__(self, **held):
        self.itself = self
        self.__dict__.update(held)


@native
def test_what_a_script_can_reach():
    net, env, optimizer = Net(), Outer(Inner()), [Net()]
    known = Holder(parts=[{"net": net}], call=lambda: env, later=(item for item in optimizer))
    library = {"net": Net(), "known": known}

    def reached(roots, without=(), types=(Net, Inner), ids=(), most=1000):
        return core.reachable(roots, [globals(), *without], types, tuple(map(id, ids)), most)

    assert set(map(id, reached([known]))) == {id(net), id(env.env), id(optimizer[0])}
    assert reached([known], types=(Holder,)) == [known]
    assert reached([Holder(library=library)], [library]) == []
    assert reached([Holder(made=Net)], types=(Net,)) == []  # classes lead to all that a library has
    assert reached([known], ids=(net, env)) is not None
    assert reached([known], ids=(net, library["net"])) is None
    assert reached([[known] for _ in range(10)], most=9) is None
    with pytest.raises(TypeError):
        core.reachable([], [], (), ("no id",), 1)


@native
def test_what_variables_hold():
    unheard_of = Net()

    def inner(argument):
        local = Inner()
        return core.variables(inspect.currentframe()), argument, local, unheard_of

    held, *objects = inner(Net())
    found = core.reachable(held, [], (Net, Inner), (), 100_000)
    assert {id(item) for item in objects} <= {id(item) for item in found}
    with pytest.raises(TypeError):
        core.variables(objects)


def test_the_script_s_objects_are_found_where_it_keeps_them(monkeypatch):
    net, hidden = Net(), Holder()
    classes = (Net,)
    monkeypatch.setattr(alive, "MOST", 10**9)  # other tests leave a lot behind
    assert net in alive.alive(classes, {id(net)})
    collected = [Net()]
    monkeypatch.setattr(gc, "get_objects", lambda: collected)
    if core._native:
        assert alive.alive(classes, {id(net)})[0] is not collected[0]
    assert alive.alive(classes, ()) == collected  # nothing was seen at work
    hidden = id(Holder())  # gone
    assert alive.alive(classes, {hidden}) == collected

"""Hooks of environments inside others are taken off once they were watched, and come back when they are needed."""

import pytest

from hotlap.probe.events import Events
from hotlap.probe.hooks import nested
from hotlap.probe.hooks.environments import patch_environments
from hotlap.probe.watching import Watch


@pytest.fixture
def world():
    """An environment in two wrappers, in a vector that steps them by turns; and the events that their hooks report to."""

    class Env:
        def step(self, action):
            return 0.0, 1.0, False, False, {}

        def reset(self):
            return 0.0, {}

    class Wrapper(Env):
        def __init__(self, env):
            self.env = env

        def step(self, action):
            return self.env.step(action)

        def reset(self):
            return self.env.reset()

    class Game(Env):
        def step(self, action):
            return super().step(action)

    class Limit(Wrapper):
        pass

    class Check(Wrapper):
        def step(self, action):
            return super().step(action)

    class Vector(Env):
        num_envs = 2

        def __init__(self, make):
            self.envs = [make(), make()]

        def step(self, action):
            return [env.step(action) for env in self.envs]

        def reset(self):
            return [env.reset() for env in self.envs]

    events = Events()
    patch_environments(Env, events, abstract=(Wrapper,))
    world = type("World", (), {})()
    world.classes = Game, Limit, Check
    world.plain = [dict(vars(cls)) for cls in world.classes]
    world.make, world.events, world.Vector = lambda: Check(Limit(Game())), events, Vector
    nested.put_all_back()
    yield world
    events.stop()
    nested.put_all_back()


def hooked(world):
    return [hasattr(vars(cls).get("step"), "__hotlap__") for cls in world.classes]


def watch(world, env):
    events = world.events
    events.start(lambda sample: None)
    events.watch, events.watching_steps = Watch(), True
    env.step(0)
    events.watching_steps = False
    nested.take_off(events.watch.nested, events.watch.outermost)


def test_hooks_inside_a_vector_are_taken_off_and_nothing_of_them_is_left(world):
    vector = world.Vector(world.make)
    assert hooked(world) == [True, True, True]
    watch(world, vector)
    assert hooked(world) == [False, False, False]
    game, limit, check = world.classes
    assert "step" in vars(game) and "step" not in vars(limit) and "step" in vars(check)
    before = world.events.env_steps
    vector.step(0)
    assert world.events.env_steps == before + 2
    vector.reset()
    assert hooked(world) == [False, False, False]  # what a vector resets is inside it still


def test_the_outermost_keeps_its_hook_and_what_it_inherits_from(world):
    game, limit, check = world.classes
    watch(world, check(limit(check(game()))))
    assert hooked(world) == [False, False, True]


@pytest.mark.parametrize("paused", [False, True])
def test_a_reset_from_outside_puts_them_back(world, paused):
    vector = world.Vector(world.make)
    watch(world, vector)
    events = world.events
    if paused:
        events.pause(60.0, lambda sample: None)
        events.updated = True
        events.late = 0
        vector.step(0)
        assert events.paused
    vector.reset()
    assert hooked(world) == [False, False, False]
    alone = world.make()
    alone.reset()
    assert hooked(world) == [False, False, True]  # the others are inside it
    before = events.env_steps
    alone.step(0)
    assert events.env_steps == before + 1
    vector.step(0)
    assert events.env_steps == before + 3

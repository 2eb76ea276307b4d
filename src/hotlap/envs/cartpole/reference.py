"""CartPole in plain Python: the rules of Gymnasium's CartPole-v1. `kernel.h` must equal it bit for bit."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hotlap.envs.numeric import sin_cos
from hotlap.envs.rng import Rng
from hotlap.envs.spec import EnvSpec
from hotlap.envs.start import Start, check_keys

GRAVITY = 9.8
CART_MASS, POLE_MASS = 1.0, 0.1
HALF_LENGTH = 0.5  # of the pole
FORCE = 10.0
TIME_STEP = 0.02
ANGLE_LIMIT = 12 * 2 * math.pi / 360
POSITION_LIMIT = 2.4
START = 0.05  # each number of the state starts within this of 0
MAX_STEPS = 500
LARGEST = 1e6  # number that a start may have
DRAWS = 1 << 30  # number of values that a start is drawn from


class CartPole(gymnasium.Env[NDArray[np.float32], int]):
    """A pole on a cart, as in Gymnasium's CartPole-v1.

    **Actions**: 0 pushes left, 1 right. **Observation**: 4 floats: position, velocity, angle, angular velocity. **Reward**: 1
    each step. **Start**: four uniform numbers; `reset(options={"state": (x, v, angle, w)})` fixes them. **End**: terminated
    when the cart leaves the track or the pole leans over 12 degrees; truncated after 500 steps.
    """

    kernel = Path(__file__).with_name("kernel.h")

    def __init__(self) -> None:
        limits = (2 * POSITION_LIMIT, math.inf, 2 * ANGLE_LIMIT, math.inf)
        self.env_spec = EnvSpec.dense((4,), tuple(-limit for limit in limits), limits, actions=2)
        self.observation_space, self.action_space = self.env_spec.observation_space, self.env_spec.action_space
        self.rng = Rng.unseeded()
        self.state = [0.0] * 4
        self.steps = 0

    @property
    def defines(self) -> dict[str, int | float]:
        """What the kernel must know about this game, as C macros."""
        return {
            "GRAVITY": GRAVITY,
            "POLE_MASS": POLE_MASS,
            "TOTAL_MASS": CART_MASS + POLE_MASS,
            "HALF_LENGTH": HALF_LENGTH,
            "POLE_MASS_LENGTH": POLE_MASS * HALF_LENGTH,
            "FORCE": FORCE,
            "TIME_STEP": TIME_STEP,
            "ANGLE_LIMIT": ANGLE_LIMIT,
            "POSITION_LIMIT": POSITION_LIMIT,
            "START": START,
            "MAX_STEPS": MAX_STEPS,
            "DRAWS": DRAWS,
        }

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.rng = Rng(seed)
        if options:
            self.state = [float(value) for value in self.encode_start(options).numbers.view(np.float64)]
        else:
            self.state = [(2.0 * (self.rng.below(DRAWS) / DRAWS) - 1.0) * START for _ in range(4)]
        self.steps = 0
        return self.observe(), {}

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"cartpole: action must be 0 or 1, not {action!r}")
        x, v, angle, w = self.state
        force = FORCE if action == 1 else -FORCE
        sin, cos = sin_cos(angle)
        total = CART_MASS + POLE_MASS
        pull = (force + POLE_MASS * HALF_LENGTH * (w * w) * sin) / total
        turn = (GRAVITY * sin - cos * pull) / (HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * (cos * cos) / total))
        push = pull - POLE_MASS * HALF_LENGTH * turn * cos / total
        self.state = [x + TIME_STEP * v, v + TIME_STEP * push, angle + TIME_STEP * w, w + TIME_STEP * turn]
        self.steps += 1
        x, _, angle, _ = self.state
        terminated = x < -POSITION_LIMIT or x > POSITION_LIMIT or angle < -ANGLE_LIMIT or angle > ANGLE_LIMIT
        truncated = not terminated and self.steps >= MAX_STEPS
        return self.observe(), 1.0, terminated, truncated, {}

    def observe(self) -> NDArray[np.float32]:
        return np.array(self.state, dtype=np.float32)

    def metrics(self) -> tuple[float, ...]:
        return ()

    def encode_start(self, options: Mapping[str, Any]) -> Start:
        """Check `options["state"]`; its four numbers, as the bits that the kernel reads."""
        check_keys("cartpole", options, "state")
        try:
            state = np.array([float(value) for value in options["state"]])
        except (TypeError, ValueError):
            state = np.zeros(0)
        if state.shape != (4,) or not (np.abs(state) < LARGEST).all():
            raise ValueError(
                f"cartpole: state must be four numbers below {LARGEST:,.0f}: position, velocity, angle, angular velocity"
            )
        return Start(state.view(np.int32))

    def pack(self) -> NDArray[np.uint64]:
        """The whole state as numbers, for checkpoints: `unpack` restores it exactly."""
        return np.array([self.rng.key, self.rng.counter, self.steps, *np.array(self.state).view(np.uint64)], np.uint64)

    def unpack(self, state: NDArray[np.uint64]) -> None:
        self.rng.key, self.rng.counter, self.steps = (int(value) for value in state[:3])
        self.state = [float(value) for value in np.ascontiguousarray(state[3:]).view(np.float64)]

"""Three tiny games that between them have everything that the kernel contract offers: a sparse observation, several actions at
once, masks, tables and starts per environment (Walk); three seats (Pass); agents that end apart from each other (Herd)."""

import atexit
import shutil
import tempfile
from pathlib import Path

import numpy as np

from hotlap.envs.rng import Rng
from hotlap.envs.spec import EnvSpec, Table
from hotlap.envs.start import Start, check_keys

FOLDER = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def written(name: str, source: str) -> Path:
    """A kernel header on disk."""
    path = FOLDER / name / "kernel.h"
    path.parent.mkdir()
    path.write_text(source)
    return path


class Toy:
    """What the three references share. `state` is a list of whole numbers."""

    env_spec: EnvSpec
    defines: dict[str, int | float] = {"LIMIT": 20}

    def __init__(self):
        self.rng, self.state = Rng(0), [0]
        self.observation_space, self.action_space = self.env_spec.observation_space, self.env_spec.action_space

    def seed(self, seed):
        if seed is not None:
            self.rng = Rng(seed)

    def encode_start(self, options):
        check_keys(type(self).__name__.lower(), options)

    def pack(self):
        return np.array([self.rng.key, self.rng.counter, *self.state], np.uint64)

    def unpack(self, state):
        self.rng.key, self.rng.counter, *self.state = (int(number) for number in state)

    def close(self):
        pass


class Walk(Toy):
    """Walk from 0 to 11 past prizes: stay, right or left, and a jump one further from even cells."""

    env_spec = EnvSpec.sparse(
        24, 3, actions=(3, 2), masked=True, metrics=("furthest", "prize"), tables=(Table("prizes", "<f4", (12,)),)
    )
    kernel = written(
        "walk",
        """
typedef struct { Rng rng; int32_t position, steps, furthest; } Env;
FN void env_seed(Env *env, uint64_t seed) { rng_seed(&env->rng, seed); }
FN void begin(Env *env, int position) { env->position = env->furthest = position; env->steps = 0; }
FN void env_restart(Env *env, const Tables *tables) { (void)tables; begin(env, (int)rng_below(&env->rng, 4)); }
FN void env_load(Env *env, const Tables *tables, const int32_t *start, int count) {
    (void)tables, (void)count;
    begin(env, start[0]);
}
FN void env_step(Env *env, const Tables *tables, const Action *actions, Step *step) {
    int way = actions[0] == 1 ? 1 : actions[0] == 2 ? -1 : 0, next = env->position + way * (1 + (int)actions[1]);
    env->position = next < 0 ? 0 : next > 11 ? 11 : next;
    if (env->position > env->furthest) env->furthest = env->position;
    env->steps++;
    step->reward[0] = tables->prizes[env->position];
    step->terminated[0] = next >= 11; /* not position == 11, which ptxas 13.0 gets wrong: see docs/kernels.md */
    step->truncated[0] = next < 11 && env->steps >= LIMIT;
}
FN void env_observe(const Env *env, const Tables *tables, int agent, Obs *obs) {
    (void)agent;
    sparse_begin(obs);
    sparse_one(obs, env->position);
    if (tables->prizes[env->position] > 0.0f) sparse_one(obs, 12 + env->position);
    sparse_end(obs);
}
FN void env_mask(const Env *env, const Tables *tables, int agent, uint8_t *mask) {
    (void)tables, (void)agent;
    mask[0] = mask[1] = mask[3] = 1;
    mask[2] = env->position > 0;
    mask[4] = env->position % 2 == 0;
}
FN void env_metrics(const Env *env, int agent, float *metrics) {
    (void)agent;
    metrics[0] = (float)env->furthest;
    metrics[1] = 7.5f;
}
""",
    )

    def __init__(self, best: float = 3.0):
        super().__init__()
        self.prizes = np.array([0, 0, 1, 0, -1, 0, 0, 0.1, 0, -0.3, 0, best], np.float32)

    def tables(self):
        return {"prizes": self.prizes}

    def encode_start(self, options):
        check_keys("walk", options, "position", "prizes")
        numbers = np.array([options["position"]] if "position" in options else [], np.int32)
        tables = {"prizes": np.array(options["prizes"], np.float32)} if "prizes" in options else {}
        if any(table.shape != (12,) for table in tables.values()) or (numbers.size and not 0 <= numbers[0] < 11):
            raise ValueError("walk: position must be 0 to 10, and prizes twelve numbers")
        return Start(numbers, tables)

    def reset(self, *, seed=None, options=None):
        self.seed(seed)
        start = self.encode_start(options or {})
        self.prizes = start.tables.get("prizes", self.prizes)
        position = int(start.numbers[0]) if start.numbers.size else self.rng.below(4)
        self.state = [position, 0, position]
        return self.observe(), self.info()

    def step(self, action):
        position, steps, furthest = self.state
        position = min(max(position + (0, 1, -1)[action[0]] * (1 + int(action[1])), 0), 11)
        self.state = [position, steps + 1, max(furthest, position)]
        over = position == 11
        return self.observe(), float(self.prizes[position]), over, not over and steps + 1 >= 20, self.info()

    def observe(self):
        position = self.state[0]
        return self.env_spec.sparse_row([position, 12 + position] if self.prizes[position] > 0 else [position])

    def info(self):
        position = self.state[0]
        return {"action_mask": np.array([1, 1, position > 0, 1, position % 2 == 0])}

    def metrics(self):
        return self.state[2], 7.5

    def pack(self):
        return np.append(super().pack(), self.prizes.view(np.uint32).astype(np.uint64))

    def unpack(self, state):
        super().unpack(state[:-12])
        self.prizes = state[-12:].astype(np.uint32).view(np.float32)


class Pass(Toy):
    """Three players add 0 to 3 to a total in turn; who reaches the limit loses. Adding 0 skips the next player."""

    env_spec = EnvSpec.dense((2,), 0, 255, "|u1", actions=4, seats=3)
    kernel = written(
        "pass",
        """
typedef struct { Rng rng; int32_t total, seat; } Env;
FN void env_seed(Env *env, uint64_t seed) { rng_seed(&env->rng, seed); }
FN void env_restart(Env *env, const Tables *tables) {
    (void)tables;
    env->total = (int32_t)rng_below(&env->rng, 5);
    env->seat = (int32_t)rng_below(&env->rng, 3);
}
FN void env_load(Env *env, const Tables *tables, const int32_t *start, int count) {
    (void)start, (void)count;
    env_restart(env, tables);
}
FN int env_seat(const Env *env) { return env->seat; }
FN void env_step(Env *env, const Tables *tables, const Action *actions, Step *step) {
    (void)tables;
    int mover = env->seat;
    env->total += (int32_t)actions[0];
    env->seat = (mover + (actions[0] ? 1 : 2)) % 3;
    step->terminated[0] = env->total >= LIMIT;
    for (int seat = 0; seat < 3; seat++)
        step->reward[seat] = env->total < LIMIT ? 0.1f * (float)actions[0] * (seat == mover) : seat == mover ? -1.0f : 0.5f;
}
FN void env_observe(const Env *env, const Tables *tables, int agent, Obs *obs) {
    (void)tables, (void)agent;
    obs[0] = (Obs)env->total;
    obs[1] = (Obs)env->seat;
}
""",
    )

    def reset(self, *, seed=None, options=None):
        self.seed(seed)
        self.encode_start(options or {})
        self.state = [self.rng.below(5), self.rng.below(3)]
        return self.observe(), {"seat": self.state[1]}

    def step(self, action):
        total, mover = self.state
        total += int(action)
        self.state = [total, (mover + (1 if action else 2)) % 3]
        rewards = np.full(3, 0.5 if total >= 20 else 0.0, np.float32)
        rewards[mover] = -1 if total >= 20 else np.float32(0.1) * np.float32(action)
        info = {"seat": self.state[1], "rewards": rewards}
        return self.observe(), float(rewards[mover]), total >= 20, False, info

    def observe(self):
        return np.array(self.state, np.uint8)

    def metrics(self):
        return ()


class Herd(Toy):
    """Three agents eat 0, 1 or 2 of their supply, which also shrinks by itself; out of it they leave. All go after 6 steps."""

    env_spec = EnvSpec.dense((2,), -100, 100, actions=3, masked=True, agents=3, metrics=("eaten",))
    defines: dict[str, int | float] = {"LIMIT": 6, "TASTE": 0.3}
    kernel = written(
        "herd",
        """
typedef struct { Rng rng; int32_t steps, supply[AGENTS], eaten[AGENTS]; } Env;
FN void env_seed(Env *env, uint64_t seed) { rng_seed(&env->rng, seed); }
FN void env_restart(Env *env, const Tables *tables) {
    (void)tables;
    env->steps = 0;
    for (int agent = 0; agent < AGENTS; agent++) {
        env->supply[agent] = 1 + (int32_t)rng_below(&env->rng, 9);
        env->eaten[agent] = 0;
    }
}
FN void env_load(Env *env, const Tables *tables, const int32_t *start, int count) {
    env_restart(env, tables);
    for (int agent = 0; agent < count; agent++) env->supply[agent] = start[agent];
}
FN int env_active(const Env *env, int agent) { return env->supply[agent] > 0 && env->steps < LIMIT; }
FN void env_step(Env *env, const Tables *tables, const Action *actions, Step *step) {
    (void)tables;
    int left = 0;
    env->steps++;
    for (int agent = 0; agent < AGENTS; agent++) {
        if (env->supply[agent] <= 0) continue;
        env->supply[agent] -= 1 + (int32_t)actions[agent];
        env->eaten[agent] += (int32_t)actions[agent];
        step->reward[agent] = (float)(TASTE * (double)actions[agent]);
        step->terminated[agent] = env->supply[agent] <= 0;
        step->truncated[agent] = env->supply[agent] > 0 && env->steps >= LIMIT;
        left += env->supply[agent] > 0;
    }
    step->over = !left || env->steps >= LIMIT;
}
FN void env_observe(const Env *env, const Tables *tables, int agent, Obs *obs) {
    (void)tables;
    obs[0] = (Obs)env->supply[agent];
    obs[1] = (Obs)env->steps;
}
FN void env_mask(const Env *env, const Tables *tables, int agent, uint8_t *mask) {
    (void)tables;
    mask[0] = mask[1] = 1;
    mask[2] = env->supply[agent] >= 3;
}
FN void env_metrics(const Env *env, int agent, float *metrics) { metrics[0] = (float)env->eaten[agent]; }
""",
    )

    def encode_start(self, options):
        check_keys("herd", options, "supply")
        return Start(np.array(options.get("supply", []), np.int32))

    def reset(self, *, seed=None, options=None):
        self.seed(seed)
        supply = [1 + self.rng.below(9) for _ in range(3)]
        fixed = self.encode_start(options or {}).numbers
        self.state = [0, *(int(number) for number in (fixed if fixed.size else supply)), 0, 0, 0]
        return [(agent, self.observe(agent), self.mask(agent)) for agent in range(3)]

    def step(self, actions):
        self.state[0] += 1
        left = []
        for agent in range(3):
            if self.state[1 + agent] > 0:
                self.state[1 + agent] = max(self.state[1 + agent] - 1 - int(actions[agent]), -2)
                self.state[4 + agent] += int(actions[agent])
                gone, late = self.state[1 + agent] <= 0, self.state[0] >= 6
                reward = float(np.float32(0.3 * actions[agent]))
                left.append((agent, self.observe(agent), reward, gone, late and not gone, self.mask(agent)))
        return left, self.state[0] >= 6 or not any(supply > 0 for supply in self.state[1:4])

    def observe(self, agent):
        return np.array([self.state[1 + agent], self.state[0]], np.float32)

    def mask(self, agent):
        return np.array([True, True, self.state[1 + agent] >= 3])

    def metrics(self, agent):
        return (self.state[4 + agent],)

    def pack(self):
        return np.array([self.rng.key, self.rng.counter, *(number + 100 for number in self.state)], np.uint64)

    def unpack(self, state):
        super().unpack(state)
        self.state = [number - 100 for number in self.state]


TOYS = {"walk": Walk, "pass": Pass, "herd": Herd}

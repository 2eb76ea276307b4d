"""Reduced greenhouse climate model (temperature, humidity, CO2).

Lumped-parameter version of the Vanthoor model; good enough for set-point
policies, one integration step per control interval.
"""
import math

import gymnasium as gym
import numpy as np


class GreenhouseEnv(gym.Env):
    metadata = {"render_modes": []}

    def __init__(self, horizon=480, dt_minutes=3.0, energy_price=0.12, co2_price=0.09):
        super().__init__()
        self.horizon = horizon
        self.dt = dt_minutes / 60.0
        self.energy_price = energy_price
        self.co2_price = co2_price
        # heating, vents, co2 dosing
        self.action_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.observation_space = gym.spaces.Box(-10.0, 10.0, (9,), np.float32)

    def _sun(self, hour):
        s = math.sin((hour - 6.0) / 12.0 * math.pi)
        return max(s, 0.0) * self.clouds

    def _obs(self):
        hour = self.hour % 24.0
        w = hour / 24.0 * 2.0 * math.pi
        return np.array(
            [
                (self.temp - 20.0) / 10.0,
                (self.hum - 70.0) / 20.0,
                (self.co2 - 800.0) / 400.0,
                (self.out_temp - 10.0) / 10.0,
                self._sun(hour),
                math.sin(w),
                math.cos(w),
                self.last_heat,
                self.last_vent,
            ],
            dtype=np.float32,
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        rng = self.np_random
        self.t = 0
        self.hour = float(rng.uniform(0, 24))
        self.temp = float(rng.uniform(14, 24))
        self.hum = float(rng.uniform(55, 85))
        self.co2 = float(rng.uniform(450, 900))
        self.mean_out = float(rng.uniform(2, 14))
        self.clouds = float(rng.uniform(0.3, 1.0))
        self.out_temp = self.mean_out
        self.last_heat = 0.0
        self.last_vent = 0.0
        return self._obs(), {}

    def step(self, action):
        heat = min(max(0.5 * (float(action[0]) + 1.0), 0.0), 1.0)
        vent = min(max(0.5 * (float(action[1]) + 1.0), 0.0), 1.0)
        dose = min(max(0.5 * (float(action[2]) + 1.0), 0.0), 1.0)

        hour = self.hour % 24.0
        sun = self._sun(hour)
        self.out_temp = self.mean_out + 5.0 * math.sin((hour - 9.0) / 12.0 * math.pi)

        loss = (0.35 + 1.6 * vent) * (self.temp - self.out_temp)
        self.temp += self.dt * (12.0 * heat + 9.0 * sun - loss)
        transpiration = 6.0 * sun + 0.08 * max(self.temp - 10.0, 0.0)
        self.hum += self.dt * (transpiration - (0.12 + 1.1 * vent) * (self.hum - 55.0))
        self.hum = min(max(self.hum, 20.0), 100.0)
        uptake = 180.0 * sun * self.co2 / (self.co2 + 400.0)
        self.co2 += self.dt * (900.0 * dose - uptake - (0.2 + 2.5 * vent) * (self.co2 - 420.0))
        self.co2 = min(max(self.co2, 300.0), 1600.0)

        growth = sun * self.co2 / (self.co2 + 400.0) * math.exp(-(((self.temp - 22.0) / 7.0) ** 2))
        damp = max(self.hum - 85.0, 0.0) / 15.0
        cost = self.energy_price * heat + self.co2_price * dose
        reward = 2.0 * growth - cost - 0.5 * damp - 0.05 * abs(heat - self.last_heat)

        self.last_heat, self.last_vent = heat, vent
        self.hour += self.dt
        self.t += 1
        return self._obs(), reward, False, self.t >= self.horizon, {}

import numpy as np
import pandas as pd


def load_market(path):
    """Hourly prices, load and solar with the derived columns, as one float32 table."""
    df = pd.read_csv(path, parse_dates=["time"])
    df = df.set_index("time").sort_index()
    df["residual"] = df["load_mw"] - df["solar_mw"]
    df["price_day"] = df["price_eur"].rolling(24, min_periods=1).mean()
    df["price_week"] = df["price_eur"].rolling(168, min_periods=1).mean()
    df["hour"] = df.index.hour
    return df[["price_eur", "price_day", "price_week", "residual", "hour"]].to_numpy(np.float32)


class BatteryEnv(object):
    """10 MWh battery on the day-ahead market. Old gym interface: obs, reward, done, info."""

    def __init__(self, path, hours=336, capacity=10.0, power=4.0, seed=0):
        self.path = path
        self.hours = hours
        self.capacity = capacity
        self.power = power
        self.rng = np.random.RandomState(seed)
        self.obs_dim = 9
        self.n_actions = 3            # charge, idle, discharge

    def reset(self):
        self.table = load_market(self.path)
        self.start = int(self.rng.randint(0, len(self.table) - self.hours - 1))
        self.i = 0
        self.soc = 0.5 * self.capacity
        self.profit = 0.0
        return self._obs()

    def _obs(self):
        price, day, week, residual, hour = self.table[self.start + self.i].tolist()
        w = hour / 24.0 * 6.2831853
        return np.array([self.soc / self.capacity, (price - day) / 20, (price - week) / 20, (day - week) / 20,
                         price / 100, residual / 50, np.sin(w), np.cos(w), self.i / self.hours], dtype=np.float32)

    def step(self, action):
        price = float(self.table[self.start + self.i, 0])
        move = (1 - action) * self.power
        move = min(max(move, -self.soc), self.capacity - self.soc)
        self.soc += 0.95 * move if move > 0 else move
        cash = -move * price - 0.5 * abs(move)
        self.profit += cash
        self.i += 1
        done = self.i >= self.hours
        return self._obs(), cash / 100.0, done, {}

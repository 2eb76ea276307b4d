from collections import deque

import numpy as np


class Memory:
    def __init__(self, max_memory, state_size):
        self.state_size = state_size
        self.data = deque(maxlen=max_memory)

    def __len__(self):
        return len(self.data)

    def remember(self, state, action, reward, next_state, done):
        self.data.append((state, action, reward, next_state, done))

    def sample(self, batch_size):
        picks = np.random.choice(len(self.data), batch_size, replace=False)
        batch = [self.data[i] for i in picks]
        s, a, r, s2, d = zip(*batch)
        return (np.array(s, dtype=np.float32), np.array(a, dtype=np.int64), np.array(r, dtype=np.float32),
                np.array(s2, dtype=np.float32), np.array(d, dtype=np.float32))

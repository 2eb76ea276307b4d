import os

import numpy as np
import torch


class Checkpointer:
    """keeps the latest state of the run, so that a preempted job can go on where it was"""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def save(self, net, target, opt, buffer, step):
        torch.save({"net": net.state_dict(), "target": target.state_dict(), "opt": opt.state_dict(), "step": step},
                   os.path.join(self.folder, "agent.pt"))
        np.savez_compressed(os.path.join(self.folder, "replay.npz"), **buffer.state())

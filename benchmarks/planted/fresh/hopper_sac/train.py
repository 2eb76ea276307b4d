import torch

from trainer import Settings, Trainer

if __name__ == "__main__":
    torch.set_num_threads(1)
    Trainer(Settings()).run()

"""PufferLib 3.0's own trainer on its own C CartPole. Run by a Python that has PufferLib with that environment built.

python native_puffer.py mlp|lstm STEPS

Its environment ends episodes after 200 steps. Its recipe is kept but for the device, one process instead of two workers, and
Adam (its Muon needs an old heavyball).
"""

import sys
import tempfile
import time
from statistics import median
from typing import Any

kind, steps = sys.argv[1], int(sys.argv[2])
sys.argv = sys.argv[:1]  # PufferLib reads it

import torch  # noqa: E402

torch.set_num_threads(2)

from pufferlib import pufferl  # type: ignore[import-not-found]  # noqa: E402

pufferl.PuffeRL.print_dashboard = lambda self, *a, **k: None
config: Any = pufferl.load_config("puffer_cartpole")
config["vec"].update(backend="PufferEnv", num_envs=1)
config["env"]["num_envs"] = 4096
config["policy"]["hidden_size"] = 128
if kind == "lstm":
    config["rnn"].update(input_size=128, hidden_size=128)
else:
    config["rnn_name"] = None
config["train"].update(
    device="cpu",
    total_timesteps=steps,
    bptt_horizon=64,
    minibatch_size=32_768,
    update_epochs=1,
    use_rnn=kind == "lstm",
    optimizer="adam",
    data_dir=tempfile.mkdtemp(),
)
env = pufferl.load_env("puffer_cartpole", config)
env.agents_per_batch = env.num_agents  # which its trainer asks for
trainer = pufferl.PuffeRL(dict(**config["train"], env="puffer_cartpole"), env, pufferl.load_policy(config, env), None)
times: list[float] = []
length = 0.0
while trainer.global_step < steps:
    begin = time.perf_counter()
    trainer.evaluate()
    logs = trainer.train()
    times.append(time.perf_counter() - begin)
    length = float((logs or {}).get("environment/episode_length", length))
    print(f"curve {trainer.global_step} {sum(times):.4f} {length:.2f}")
print("parameters", trainer.model_size)
print("steps_per_s", trainer.config["batch_size"] / median(times[2:]), flush=True)
trainer.utilization.stop()
env.close()

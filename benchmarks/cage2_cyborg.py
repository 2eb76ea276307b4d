"""A saved CAGE2 policy in the real CybORG, by the challenge's own wrapper.

    CYBORG_PYTHON benchmarks/cage2_cyborg.py CHECKPOINT --hotlap .venv/bin/python [--red meander] [--episodes 100] [--steps 100]

CybORG 2.1 and hotlap want different versions of numpy, so this runs in CybORG's interpreter and asks a second process, in
hotlap's, for each action. It prints one JSON document, with the return of every episode.
"""

import argparse
import inspect
import json
import random
import statistics
import subprocess

POLICY = """
import json, sys, hotlap
policy = hotlap.load_policy(sys.argv[1])
for line in sys.stdin:
    bits = json.loads(line)
    if bits is None:
        policy.reset()
    else:
        print(int(policy.act(bits)), flush=True)
"""


class Policy:
    def __init__(self, python: str, checkpoint: str) -> None:
        self._process = subprocess.Popen(
            [python, "-c", POLICY, checkpoint], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _send(self, message: object) -> None:
        print(json.dumps(message), file=self._process.stdin, flush=True)

    def reset(self) -> None:
        self._send(None)

    def act(self, bits: list[int]) -> int:
        self._send(bits)
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


def play(policy: Policy, red: str, seed: int, steps: int) -> float:
    from CybORG import CybORG
    from CybORG.Agents import B_lineAgent, RedMeanderAgent
    from CybORG.Agents.Wrappers import ChallengeWrapper

    scenario = inspect.getfile(CybORG).removesuffix("CybORG.py") + "Shared/Scenarios/Scenario2.yaml"
    random.seed(seed)
    agent = {"b_line": B_lineAgent, "meander": RedMeanderAgent}[red]
    env = ChallengeWrapper(env=CybORG(scenario, "sim", agents={"Red": agent}), agent_name="Blue")
    bits, total = env.reset(), 0.0
    policy.reset()
    for _ in range(steps):
        bits, reward, *_ = env.step(policy.act([int(bit) for bit in bits]))
        total += reward
    return round(total, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--hotlap", required=True, help="the Python that has hotlap")
    parser.add_argument("--red", default="b_line", choices=("b_line", "meander"))
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()
    policy = Policy(args.hotlap, args.checkpoint)
    returns = [play(policy, args.red, seed, args.steps) for seed in range(args.episodes)]
    error = statistics.stdev(returns) / len(returns) ** 0.5
    print(
        json.dumps({"red": args.red, "steps": args.steps, "mean": statistics.mean(returns), "error": error, "returns": returns})
    )


if __name__ == "__main__":
    main()

"""The table of the original guide, measured instead of multiplied: each of its changes alone, and all together.

    python benchmarks/mettagrid_guide.py [NAME ...] [--budget 90s] [--engine metta]

Every row is one `hotlap compare` of `mettagrid --preset seed` with and without the change: interleaved runs, in fresh
processes, with a 95% interval. Only throughput: what a change does to learning per second is `mettagrid_learning.py --preset
seed` with the same settings, each as `--name value`. A batch of 262,144 takes too long on two cores; it is 65,536.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from side_by_side import err, keep


@dataclass(frozen=True)
class Change:
    """What the guide changes, the gain it claims, and the flags that do the same here, over those of the preset `seed`."""

    name: str
    what: str
    claim: str
    flags: str
    base: str = ""  # flags of both variants


KERNEL = "--turbo"  # where environments in Python would hide what the change does
CHANGES = (
    Change("batch", "batch 16,384 -> 65,536 (guide: 262,144)", "16x", "--horizon 256 --bptt 64", KERNEL),
    Change("minibatch", "minibatch 512 -> 16,384, the whole batch (guide: 32,768)", "64x", "--batch-size 16384", KERNEL),
    Change("workers", "workers 4 -> 16", "4x", "--workers 16"),
    Change("async", "async factor 2 -> 8, with 16 workers", "4x", "--async-factor 8", "--workers 16"),
    Change("environments", "environments 64 -> 512, horizon 64 -> 8", "8x", "--num-envs 512 --horizon 8", KERNEL),
    Change("bptt", "BPTT horizon 64 -> 32", "2x", "--bptt 32", KERNEL),
    Change("priorities", "prioritised sequences off", "-", "--priority-alpha 0", KERNEL),
    Change("contrastive", "contrastive loss off", "-", "--contrastive 0", KERNEL),
    Change("weights", "weight analysis every iteration -> off", "-", "--weight-analysis 0", f"{KERNEL} --weight-analysis 1"),
    Change("zero-copy", "zero copy on", "-", "--zero-copy", KERNEL),
    Change("offload", "cpu offload off (on a CPU there is nothing to offload)", "-", "--no-cpu-offload", KERNEL),
    Change("compile", "torch.compile, reduce-overhead", "-", "--compile --compile-mode reduce-overhead", KERNEL),
    Change("precision", "mixed precision (bfloat16)", "2x", "--precision bfloat16", f"{KERNEL} --batch-size 4096"),
    Change("accumulate", "gradient accumulation: 4,096 in 8 parts", "-", "--accumulate 8", f"{KERNEL} --batch-size 4096"),
    Change("kernel", "not in the guide: environments in C", "-", "--turbo"),
    Change("network", "not in the guide: the first convolution from tokens", "-", "--net tokens", KERNEL),
    Change("all", "all together: seed-optimized, batch 65,536", "10-20x", "--preset seed-optimized --horizon 32 --bptt 0"),
    Change("fast", "hotlap's own recipe", "-", "--preset fast"),
)


def compare(change: Change, budget: str, engine: str) -> dict[str, Any]:
    common = f"{change.base} --engine {engine}"
    preset = "" if "--preset" in change.flags else "--preset seed"
    variants = [f"mettagrid --preset seed {common}", f"mettagrid {preset} {common} {change.flags}"]
    command = [sys.executable, "-m", "hotlap", "compare", *variants, "--budget", budget, "--no-control", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"}
    document = json.loads(done.stdout)
    kept = {name: document[name] for name in ("verdict", "ratio", "ci95", "smallest_effect") if name in document}
    return {**kept, "variants": variants, "document": document}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(change.name for change in CHANGES))
    parser.add_argument("--budget", default="90s", help="of each comparison")
    parser.add_argument("--engine", default="own")
    args = parser.parse_args()
    command = " ".join(["python", "benchmarks/mettagrid_guide.py", *sys.argv[1:]])
    table, failed = Table("change", "the guide says", "measured", "95% interval", "verdict"), 0
    for change in CHANGES:
        if args.names and change.name not in args.names:
            continue
        result = compare(change, args.budget, args.engine)
        if "error" in result:
            failed += 1
            err.print(f"{change.what}: {result['error']}")
            continue
        low, high = result["ci95"]
        table.add_row(change.what, change.claim, f"{result['ratio']:.2f}x", f"{low:.2f}-{high:.2f}", str(result["verdict"]))
        err.print(f"{change.what}: {result['ratio']:.2f}x ({low:.2f}-{high:.2f}), {result['verdict']}")
        keep("mettagrid_guide", command, {change.name: {"what": change.what, "claim": change.claim, **result}}, indent=None)
    Console().print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

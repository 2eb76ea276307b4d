"""Writes the three demo halls (run once; the files are checked in)."""
from pathlib import Path

import numpy as np

OUT = Path(__file__).parent / "warehouse" / "layouts"


def hall(name, h, w, pitch, seed):
    rng = np.random.default_rng(seed)
    lines = [f"name: {name}", f"size: [{h}, {w}]", "stations:"]
    for k in range(4):
        lines.append(f"  - [0, {(2 * k + 1) * w // 8}]")
    lines.append("racks:")
    n = 0
    for c in range(3, w - 3, pitch):
        for r in range(4, h - 3, 2 if seed % 2 else 3):
            if rng.random() < 0.15:
                continue
            sku = "".join(rng.choice(list("ABCDEF0123456789"), 6))
            lines += [f"  - id: R{n:03d}", f"    at: [{r}, {c}]", f"    access: [{r}, {c + 1}]", f"    sku: '{sku}'"]
            n += 1
    (OUT / f"{name}.yaml").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    hall("hall_a", 24, 26, 5, 1)
    hall("hall_b", 28, 22, 5, 2)
    hall("hall_c", 30, 30, 7, 3)

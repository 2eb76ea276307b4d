"""Writes layouts/*.yaml (they are checked in, run again only to change them)."""
import pathlib
import random

import yaml

OUT = pathlib.Path(__file__).parent / "layouts"


def layout(seed, w=26, h=26):
    rnd = random.Random(seed)
    shelves = []
    for y in range(2, h - 2, 3):
        for x in range(2, w - 2):
            if rnd.random() < 0.8:
                shelves.append({"id": f"S{len(shelves):03d}", "cell": [x, y], "sku": rnd.randint(1000, 9999), "stock": rnd.randint(0, 40)})
    return {"name": f"hall_{seed}", "size": [w, h], "docks": [[0, h // 2], [w - 1, h // 2]], "shelves": shelves, "max_steps": 80}


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for s in range(4):
        (OUT / f"hall_{s}.yaml").write_text(yaml.safe_dump(layout(s), sort_keys=False))

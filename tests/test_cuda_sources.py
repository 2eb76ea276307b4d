"""The trainers' CUDA kernels compile, where there is nvcc; what they compute is tested on a GPU."""

import shutil
import subprocess
from pathlib import Path

import pytest

import hotlap.train

TRAIN = Path(hotlap.train.__file__).parent
SOURCES = {
    "gae": ("gae.c", ""),
    "dense": ("dense.cu", "#define BFLOAT16 0\n"),
    "dense, bfloat16": ("dense.cu", "#define BFLOAT16 1\n"),
    "adam": ("adam.cu", ""),
    "q": ("q.cu", "#define ACTIONS 3\n#define DUELING 0\n#define BLOCK 512\n"),
    "q, dueling": ("q.cu", "#define ACTIONS 18\n#define DUELING 1\n#define BLOCK 512\n"),
    "replay, words": ("replay.cu", "#define WORD unsigned int\n"),
    "replay, bytes": ("replay.cu", "#define WORD unsigned char\n"),
}
pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc, CUDA's compiler")


@pytest.mark.parametrize("name", SOURCES)
def test_kernels_compile(name, tmp_path):
    file, before = SOURCES[name]
    text = (TRAIN / file).read_text()
    for integer in ("typedef long long int64_t;", "typedef unsigned char uint8_t;", "typedef signed char int8_t;"):
        text = text.replace(integer, "")  # NVRTC has no headers; nvcc has these types
    (tmp_path / "kernel.cu").write_text(f"#include <stdint.h>\n{before}{text}")
    command = ["nvcc", "--fmad=false", "-Werror", "all-warnings", "-ptx", "kernel.cu", "-o", "kernel.ptx"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert ".entry" in (tmp_path / "kernel.ptx").read_text()

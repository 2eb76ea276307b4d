"""CUDA kernels: compiled at run time by NVRTC, launched on torch's current stream, so that a CUDA graph can capture them.

Through cuda-core or CuPy, whichever is installed (the extra `hotlap[cuda]` brings the first). Kernels are `extern "C"` and take
pointers and 64-bit integers, and floats.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from hotlap.core.errors import KernelError
from hotlap.core.text import one_line

BLOCK = 128  # threads
Launch = Callable[..., None]  # (blocks, arguments)
HOW_TO_GET = "install hotlap[cuda], or CuPy for your CUDA version"


class Program:
    """A compiled CUDA program. Multiplications and additions are not fused: the results are those of a CPU."""

    def __init__(self, source: str, include: str, block: int = BLOCK) -> None:
        self._block = block
        self._kernel = _compiler()(source, include)
        self._launches: dict[str, Launch] = {}

    def run(self, name: str, threads: int, *arguments: Any) -> None:
        """Launch a kernel with at least so many threads. Arguments: tensors, whole numbers (64 bits), floats; None: NULL."""
        if name not in self._launches:
            self._launches[name] = self._kernel(name)
        self._launches[name](-(-threads // self._block), self._block, [_argument(argument) for argument in arguments])


def _argument(value: Any) -> Any:
    import numpy as np

    if value is None or hasattr(value, "data_ptr"):
        return np.uint64(0 if value is None else value.data_ptr())
    return np.float32(value) if isinstance(value, float) else np.int64(value)


@cache
def missing() -> str:
    """Why kernels cannot be compiled for a GPU here; empty if they can."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if not torch.cuda.is_available():
        return "torch sees no CUDA GPU"
    try:
        _compiler()
    except KernelError as error:
        return str(error)
    return ""


Compiler = Callable[[str, str], Callable[[str], Launch]]  # (source, folder of headers) -> name of a kernel -> how to launch it


@cache
def _compiler() -> Compiler:
    try:
        return _of_cuda_core()
    except Exception as first:  # not installed, or for another CUDA than the driver's
        try:
            return _of_cupy()
        except Exception as second:
            reasons = "; ".join(one_line(str(error)) for error in (first, second))
            raise KernelError(f"no NVRTC to compile kernels for the GPU ({reasons}): {HOW_TO_GET}") from second


def _of_cuda_core() -> Compiler:
    import torch
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    class Current:
        """torch's current stream, as cuda-core takes streams of others."""

        def __init__(self, handle: int) -> None:
            self._handle = handle

        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, self._handle

    streams: dict[tuple[int, int], Any] = {}  # by device and handle

    def compile_source(source: str, include: str) -> Callable[[str], Launch]:
        torch.cuda.current_stream()  # torch's context is the one that everything shares
        device = Device(torch.cuda.current_device())
        device.set_current()
        options = ProgramOptions(arch=f"sm_{device.arch}", fma=False, include_path=[include])
        compiled = _compiled(lambda: Program(source, "c++", options).compile("cubin"))

        def kernel(name: str) -> Launch:
            found = compiled.get_kernel(name)

            def start(blocks: int, block: int, arguments: list[Any]) -> None:
                handle = torch.cuda.current_stream().cuda_stream
                key = torch.cuda.current_device(), handle
                if key not in streams:
                    streams[key] = device.create_stream(Current(handle))
                launch(streams[key], LaunchConfig(grid=blocks, block=block), found, *arguments)

            return start

        return kernel

    return compile_source


def _of_cupy() -> Compiler:
    import cupy
    import torch

    streams: dict[tuple[int, int], Any] = {}  # by device and handle

    def compile_source(source: str, include: str) -> Callable[[str], Launch]:
        options = ("--fmad=false", f"-I{include}")
        module = cupy.RawModule(code=source, options=options, backend="nvrtc")
        _compiled(module.compile)

        def kernel(name: str) -> Launch:
            found = module.get_function(name)

            def start(blocks: int, block: int, arguments: list[Any]) -> None:
                handle = torch.cuda.current_stream().cuda_stream
                key = torch.cuda.current_device(), handle
                if key not in streams:
                    streams[key] = cupy.cuda.ExternalStream(handle)
                with streams[key]:
                    found((blocks,), (block,), tuple(arguments))

            return start

        return kernel

    return compile_source


def _compiled(compile_it: Callable[[], Any]) -> Any:
    try:
        return compile_it()
    except Exception as error:
        lines = [line for line in str(error).splitlines() if "error" in line] or str(error).splitlines() or ["no message"]
        raise KernelError(f"NVRTC cannot compile a kernel for this GPU: {lines[0].strip()}", str(error)) from error

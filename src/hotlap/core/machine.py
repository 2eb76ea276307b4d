"""The machine a run was made on, and what the run used of it. Standard library only: the probe asks too.

No host name, user name or path: records are meant to be shared.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import threading
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from hotlap.core import native
from hotlap.core.version import __version__

PACKAGES = ("torch", "numpy", "gymnasium", "gym", "scipy", "stable-baselines3", "torchrl", "tianshou", "skrl", "ray")


def describe() -> dict[str, Any]:
    """Hardware, limits, versions, load and the commit of the working folder."""
    total, available = memory()
    compiler = native.compiler()
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count() or 1,
        "usable_cores": usable_cores(),
        "cgroup": cgroup_limits(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "memory": total,
        "memory_available": available,
        "gpus": gpus(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "compiler": native.compiler_version(compiler) if compiler else None,
        "versions": versions(),
        "commit": git_commit(),
    }


def cpu_model() -> str:
    with suppress(OSError):
        match = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
        if match:
            return match[1]
    return platform.processor() or platform.machine()


def cgroup_limits(root: Path = Path("/sys/fs/cgroup"), own_cgroup: Path = Path("/proc/self/cgroup")) -> dict[str, Any]:
    """CPU quota in cores and memory limit in bytes, from cgroup version 2 or 1; None where there is no limit.

    In version 2 the tightest limit of this process's group and the groups above it holds.
    """
    folders = [root]
    with suppress(OSError):
        path = next((line[3:] for line in own_cgroup.read_text().splitlines() if line.startswith("0::/")), "/")
        group = root / path.lstrip("/")
        folders += [folder for folder in (group, *group.parents) if folder.is_relative_to(root)]
    cpus, memory = [], []
    for folder in folders:
        with suppress(OSError, ValueError):  # no file, or "max"
            quota, period = (folder / "cpu.max").read_text().split()
            cpus.append(int(quota) / int(period))
        with suppress(OSError, ValueError):
            memory.append(int((folder / "memory.max").read_text()))
    with suppress(OSError, ValueError):
        quota_us, period_us = ((root / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        if int(quota_us) > 0:
            cpus.append(int(quota_us) / int(period_us))
    with suppress(OSError, ValueError):
        limit = int((root / "memory" / "memory.limit_in_bytes").read_text())
        if limit < 1 << 60:  # a larger number stands for "no limit"
            memory.append(limit)
    return {"cpus": min(cpus, default=None), "memory": min(memory, default=None)}


def usable_cores() -> float:
    """Cores this process may use: its affinity and its cgroup's quota."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    quota = cgroup_limits()["cpus"]
    return min(cores, quota) if quota else cores


def versions() -> dict[str, str]:
    installed = {"hotlap": __version__}
    for package in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            installed[package] = metadata.version(package)
    return installed


def git_commit(folder: Path | None = None) -> str | None:
    """The commit of the working folder, with "+" if files differ from it."""

    def git(*arguments: str) -> str | None:
        with suppress(OSError, subprocess.SubprocessError):
            command = ["git", *arguments]
            return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=5).stdout
        return None

    commit = git("rev-parse", "HEAD")
    if commit is None:
        return None
    return commit.strip() + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def gpus() -> list[dict[str, Any]]:
    """Name, memory and driver of each NVIDIA GPU."""
    devices: list[dict[str, Any]] = []
    with _nvml() as nvml:
        if nvml is None:
            return devices
        driver = nvml.nvmlSystemGetDriverVersion()
        for i in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(i)
            memory = None
            with suppress(nvml.NVMLError):  # not known where host and GPU share their memory
                memory = nvml.nvmlDeviceGetMemoryInfo(handle).total
            devices.append({"name": nvml.nvmlDeviceGetName(handle), "memory": memory, "driver": driver})
    return devices


def memory() -> tuple[int, int]:
    """The machine's memory and what is available of it, in bytes; zeros where the system does not tell."""
    with suppress(OSError, KeyError, ValueError):
        rows = (line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        kilobytes = {name: int(value.split()[0]) for name, value in rows}
        return kilobytes["MemTotal"] * 1024, kilobytes["MemAvailable"] * 1024
    if (psutil := _psutil()) is None:
        return 0, 0
    return int(psutil.virtual_memory().total), int(psutil.virtual_memory().available)


def rss(pid: int | None = None) -> int:
    """Memory of this process now, or of another one, in bytes; 0 if it is gone."""
    with suppress(OSError, ValueError, IndexError):
        pages = Path(f"/proc/{pid or 'self'}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    psutil = _psutil()
    with suppress(Exception):
        return int(psutil.Process(pid).memory_info().rss)
    return 0


def rss_of_all() -> int:
    """Memory in use by this process and by all that it started; pages that they share count for each."""
    return rss() + sum(rss(pid) for pid in descendants())


def descendants() -> list[int]:
    """The processes that this one started, and those that they started."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()  # a process may have brackets in its name
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    if not children:
        psutil = _psutil()
        return [process.pid for process in psutil.Process().children(recursive=True)] if psutil else []
    pids: list[int] = []
    unseen = [os.getpid()]
    while unseen:
        started = children.get(unseen.pop(), [])
        pids += started
        unseen += started
    return pids


def _psutil() -> Any:
    """psutil, for systems without /proc; None where it is not installed."""
    try:
        import psutil
    except ImportError:
        return None
    return psutil


def peak_rss() -> int:
    """Most memory this process ever held, in bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if platform.system() == "Darwin" else 1024)


def gpu_memory() -> int:
    """Most memory torch has held so far on one GPU, in bytes; 0 without a GPU."""
    import sys

    torch = sys.modules.get("torch")
    if not torch or not torch.cuda.is_initialized():
        return 0
    return max(int(torch.cuda.max_memory_allocated(i)) for i in range(torch.cuda.device_count()))


class GpuWatch:
    """Samples how busy a torch device is during a run. For a CPU it does nothing.

    NVML's figure is the share of its last sample period in which any kernel ran, as nvidia-smi shows it.
    """

    def __init__(self, device: str, period: float = 0.1) -> None:
        self.busy: list[float] = []
        self._device = device
        self._period = period
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> GpuWatch:
        if self._device.startswith("cuda"):
            self._thread = threading.Thread(target=self._watch, name="hotlap-gpu-watch", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()

    @property
    def busy_share(self) -> float | None:
        return sum(self.busy) / len(self.busy) if self.busy else None

    def _watch(self) -> None:
        torch = sys.modules["torch"]  # what watches a GPU trains on it
        with _nvml() as nvml:
            if nvml is None:
                return
            with suppress(nvml.NVMLError):  # not every GPU reports it
                handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(self._device).uuid}")
                while not self._stop.wait(self._period):
                    self.busy.append(nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100)


class _nvml:
    """The NVML library, initialised; None where there is no NVIDIA driver."""

    def __enter__(self) -> Any:
        self._nvml = None
        with suppress(Exception):
            import pynvml

            pynvml.nvmlInit()
            self._nvml = pynvml
        return self._nvml

    def __exit__(self, *exception: object) -> None:
        if self._nvml:
            self._nvml.nvmlShutdown()

"""Namespaces: how a child's processes come into a PID namespace and a mount namespace of their own."""

from __future__ import annotations

from contextlib import suppress

from hotlap.launch import linux


def enter_namespaces() -> bool:
    """This process's children get a PID namespace of their own. Whether a user namespace was needed for that."""
    try:
        linux.unshare(linux.CLONE_NEWPID)
        return False
    except PermissionError:
        linux.new_user_namespace()
        linux.unshare(linux.CLONE_NEWPID)
        return True


def enter_mounts() -> None:
    """A mount namespace of this process's own, in which /proc shows its PID namespace."""
    linux.unshare(linux.CLONE_NEWNS)
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)


def mount_proc() -> None:
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)


def mount_shared_memory() -> None:
    """No segment that a run leaves behind outlives it."""
    with suppress(OSError):
        linux.mount("tmpfs", "/dev/shm", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=1777")

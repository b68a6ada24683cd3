"""File systems that a test mounts, small or broken ones. Without the right to, the test skips."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import pytest


def command(*words: str | Path) -> None:
    """Run a command. Raises CalledProcessError."""
    subprocess.run(words, check=True)


def mount(mounts: contextlib.ExitStack, path: Path, *arguments: str | Path) -> None:
    """Make a directory, and mount a file system there until the stack is closed."""
    path.mkdir()
    try:
        command("mount", *arguments, path)
    except subprocess.CalledProcessError:
        pytest.skip("needs the right to mount a file system")
    mounts.callback(command, "umount", "--lazy", path)


def mount_memory(mounts: contextlib.ExitStack, path: Path, mebibytes: int) -> None:
    """Mount a file system of this size, which is in memory."""
    mount(mounts, path, "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs")

"""The process that tests fork their processes from: it has imported what these would import.

Most of the time of a short command goes into imports. A fork of this process has them already. It
then runs a module as `python -m` does: with an environment, a directory, a stdin, a stdout and a
stderr of its own, and with Python's usual end. What asks for forks is in `tests.forks`.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import sys
import time
from typing import Any

REQUEST_BYTES_MAX = 1 << 17
_MODULES = (
    "quorate.receiver",
    "quorate.source",
    "quorate.store.node",
    "quorate.subscriber",
    "tests.end_to_end.applications",
)
_STARTERS = ("bench", "demo", "dev")
"""The commands that start processes of their own: they get a server of their own."""


def prepare() -> None:
    """Import what processes of tests use. Nothing of it may start a thread."""
    from quorate.console.main import COMMANDS

    for name in _MODULES:
        importlib.import_module(name)
    for lazy in COMMANDS.values():
        importlib.import_module(lazy.module)
    assert len(os.listdir("/proc/self/task")) == 1
    # So fewer pages of memory have to be copied after a fork.
    gc.freeze()


def serve(requests: socket.socket) -> dict[str, Any]:
    """Fork whenever asked. Return in the forks only, with what to run there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, 3)
        if not message:
            os._exit(0)
        request: dict[str, Any] = json.loads(message)
        said, says = os.pipe()
        between = os.fork()
        if between == 0:
            _leave_or_become(says)
            os.close(said)
            os.close(says)
            requests.close()
            _stand_on(descriptors)
            return request
        os.close(says)
        for descriptor in descriptors:
            os.close(descriptor)
        pid = os.read(said, 16)
        os.close(said)
        os.waitpid(between, 0)
        requests.send(pid)


def _leave_or_become(says: int) -> None:
    """Fork once more, and end: so the fork becomes a child of the process that asked for it."""
    between = os.getpid()
    pid = os.fork()
    if pid:
        os.write(says, str(pid).encode())
        os._exit(0)
    while os.getppid() == between:
        time.sleep(0.0005)


def _stand_on(descriptors: list[int]) -> None:
    """Make these stdin, stdout and stderr."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)


def _open_files() -> None:
    """Read and write them as Python does, which a variable may tell to keep nothing back."""
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = sys.__stdin__ = _text(0, "r")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _text(1, "w", unbuffered)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _text(2, "w", unbuffered, "backslashreplace")  # type: ignore[misc]


def _text(
    descriptor: int, mode: str, unbuffered: bool = False, errors: str = "strict"
) -> io.TextIOWrapper:
    binary: Any = open(descriptor, mode + "b", 0 if unbuffered else -1, closefd=False)  # noqa: SIM115
    by_line = descriptor == 2 or (mode == "w" and os.isatty(descriptor))
    return io.TextIOWrapper(binary, errors=errors, line_buffering=by_line, write_through=unbuffered)


def settle(request: dict[str, Any]) -> None:
    """Take on what the process was asked to have."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["session"]:
        os.setsid()
    ours = {os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))}
    if request["directory"] is not None:
        os.chdir(request["directory"])
    os.environ.clear()
    for line in request["environment"]:
        name, _, value = line.encode("latin-1").partition(b"=")
        os.environb[name] = value
    theirs = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [os.getcwd(), *theirs, *(place for place in sys.path if place not in ours)]
    _open_files()
    if request["namespace"]:
        _enter(request["namespace"])


def _enter(namespace: str) -> None:
    """Enter a network namespace that has a name."""
    library = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}") as place:
        if library.setns(place.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns")


def serve_children() -> None:
    """Start the server that forks the children of this process."""
    from tests import forks

    asked, asks = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork():
        asked.close()
        forks.install(forks.Server(asks))
        return
    asks.close()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)
    run(serve(asked))


def run(request: dict[str, Any]) -> None:
    """Run the module or the file that was asked for, as Python does."""
    settle(request)
    first, *rest = request["program"]
    if first != "-m":
        sys.argv[:] = [first, *rest]
        sys.path[0] = os.path.dirname(os.path.realpath(first))
        runpy.run_path(first, run_name="__main__")
        return
    module, *arguments = rest
    sys.argv[:] = ["-m", *arguments]
    if arguments[:1] and arguments[0] in _STARTERS:
        serve_children()
    sys.modules.pop(module, None)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    channel = socket.socket(fileno=int(sys.argv[1]))
    prepare()
    run(serve(channel))

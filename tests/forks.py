"""How processes that tests start begin as forks, with all that they would import.

Nothing else changes: such a process has a process ID, signals, an end and an exit code of its own.
It is a child of the process that started it. It may enter a network namespace, as a command after
`ip netns exec` does. What cannot be forked begins as always: a command with another prefix, a
program in a string, a Python with other settings.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_SET_CHILD_SUBREAPER = 36
FORKED = ("quorate.console.daemon", "quorate.console.main", "tests.end_to_end.applications")
"""The modules that begin in a fork after `python -m`."""
AS_THE_SERVER = ("GRPC_", "LANG", "LC_", "PYTHON")
"""How the variables begin that Python and gRPC read when they start or are imported."""
_OF_EACH = ("PYTHONPATH", "PYTHONUNBUFFERED")
"""The variables of Python that may differ from one fork to the next."""
_IN_NAMESPACE = [b"ip", b"netns", b"exec"]


class Server:
    """The process that is asked for forks; started when it is first needed."""

    def __init__(self, channel: socket.socket | None = None) -> None:
        """channel: to one that runs."""
        self._channel = channel
        self._lock = threading.Lock()
        self._executable = sys.executable
        self._environment = dict(os.environ)
        self._process: subprocess.Popen[bytes] | None = None

    def can(self, arguments: list[bytes], environment: Iterable[bytes]) -> bool:
        """Whether it can fork a process that does what this command does."""
        if arguments[:1] != [os.fsencode(self._executable)] or len(arguments) < 2:
            return False
        module = arguments[2:3] if arguments[1] == b"-m" else []
        known = os.fsdecode(b"".join(module)) in FORKED or arguments[1].endswith(b".py")
        variables = dict(each.decode("latin-1").split("=", 1) for each in environment)
        return known and _of_the_start(variables) == _of_the_start(self._environment)

    def fork(self, request: dict[str, Any], descriptors: list[int]) -> int:
        """Return the process ID of a new child of this process."""
        with self._lock:
            channel = self._channel or self._started()
            # The fork's parent ends at once: this process becomes its parent then.
            _adopt(True)
            try:
                socket.send_fds(channel, [json.dumps(request).encode()], descriptors)
                return int(channel.recv(16))
            finally:
                _adopt(False)

    def close(self) -> None:
        """End the process, if it was started."""
        with self._lock:
            if self._channel and self._process:
                self._channel.close()
                self._process.wait()
                self._channel = self._process = None

    def _started(self) -> socket.socket:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._process = subprocess.Popen(
                [self._executable, "-m", "tests.fork_server", str(its.fileno())],
                cwd=_ROOT,
                env=self._environment,
                pass_fds=(its.fileno(),),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._channel = ours
        return ours


def _of_the_start(variables: Any) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(AS_THE_SERVER) and name not in _OF_EACH
    }


def _adopt(whether: bool) -> None:
    """Become the parent of processes below this one whose own parent ends; or no longer."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_SET_CHILD_SUBREAPER, int(whether), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def install(server: Server) -> None:
    """Let each process that this one starts be a fork of the server, if the server can."""
    module: Any = subprocess
    module._fork_exec = functools.partial(_start, server, module._fork_exec)


@contextmanager
def none() -> Iterator[None]:
    """Let each process begin as an interpreter of its own, and so its children."""
    module: Any = subprocess
    forking = module._fork_exec
    module._fork_exec = forking.args[1]
    try:
        yield
    finally:
        module._fork_exec = forking


def _start(server: Server, otherwise: Callable[..., int], *of_python: Any) -> int:
    """Stand in for what Popen calls. Only its arguments' order is Python's own."""
    arguments, _, close, kept, directory, environment = of_python[:6]
    stdin, _, _, stdout, _, stderr = of_python[6:12]
    session, group, gid, gids, uid, umask, before = of_python[15:22]
    plain = (group, gid, gids, uid, umask, before) == (-1, None, None, None, -1, None)
    words = [os.fsencode(each) for each in arguments]
    namespace, words = (words[3], words[4:]) if words[:3] == _IN_NAMESPACE else (b"", words)
    variables = [
        *(
            environment
            if environment is not None
            else (b"%b=%b" % each for each in os.environb.items())
        )
    ]
    if not (plain and close and len(kept) == 1 and server.can(words, variables)):
        return otherwise(*of_python)
    request = {
        "namespace": os.fsdecode(namespace),
        "program": [os.fsdecode(each) for each in words[1:]],
        "environment": [each.decode("latin-1") for each in variables],
        "directory": os.getcwd() if directory is None else os.fsdecode(directory),
        "session": bool(session),
    }
    ends = zip((stdin, stdout, stderr), range(3), strict=True)
    return server.fork(request, [end if end >= 0 else number for end, number in ends])

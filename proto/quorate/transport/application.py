"""The application that this process runs, as its clients tell the stores."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from quorate.protocol.application import TEXT_BYTES_MAX, Application


def this_application(name: str = "") -> Application:
    """Return the application of this process.

    name: the one that it gives its client; empty: none. Raises InvalidArgument.
    """
    path = Path(sys.argv[0] if sys.argv else "")
    # `python -m package` runs a file that is called __main__.py in every package.
    program = path.parent.name if path.name == "__main__.py" else path.name
    return Application(
        name, _fitting(program), _fitting(socket.gethostname()), os.getpid()
    ).checked()


def _fitting(text: str) -> str:
    """Return the printable part of a text that nobody chose, as long as it may be."""
    printable = "".join(filter(str.isprintable, text.encode("utf-8", "ignore").decode()))
    return printable.encode()[:TEXT_BYTES_MAX].decode("utf-8", "ignore")

"""The warnings that the SDKs log while a data command runs, shown as its errors are."""

from __future__ import annotations

import json
import logging
import sys

from quorate.console.ui.exits import say
from quorate.console.ui.output import Output


class _Shown(logging.Handler):
    def __init__(self, output: Output) -> None:
        super().__init__(logging.WARNING)
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        if self._output is Output.TABLE:
            say(record.getMessage(), style="yellow", label="warning")
        else:
            print(json.dumps({"warning": record.getMessage()}), file=sys.stderr)


def show_warnings(output: Output) -> None:
    """Show warnings on stderr from now on: a line for people, a JSON object for programs."""
    logging.getLogger("quorate").addHandler(_Shown(output))

"""Shows what the SDKs log as warnings while a data command runs, in the form of its errors."""

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
    """From now on on stderr: a line for people, a JSON object for machines."""
    logging.getLogger("quorate").addHandler(_Shown(output))

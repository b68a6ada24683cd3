"""The log lines of a store's process: text for people, JSON for programs. Times are UTC."""

from __future__ import annotations

import json
import logging
import time
from typing import Literal

_TIME = "%Y-%m-%dT%H:%M:%S"


def log_to_stderr(form: Literal["text", "json"]) -> None:
    """Let this process log to stderr, as services and pipes expect."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(handlers=[handler])


class TextLines(logging.Formatter):
    """A line of text."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", _TIME)


class JsonLines(logging.Formatter):
    """A line with one JSON object: time, level, logger, message, and the traceback if any."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        seconds = time.strftime(_TIME, time.gmtime(record.created))
        line = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)

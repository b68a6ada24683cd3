"""The log and the event loop of a round of the fuzzer, watched for what went wrong inside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Complaints(logging.Handler):
    """The log lines that no input may cause: those of exceptions that nobody expected."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.name == "asyncio" or record.levelno >= logging.CRITICAL:
            self.found.append(f"the log, {record.name}: {self.format(record)[-1500:]}")


@contextmanager
def complaints() -> Iterator[list[str]]:
    """Yield what goes wrong inside while the context lasts. Call it on the event loop."""
    handler = _Complaints()
    loop = asyncio.get_running_loop()

    def failed(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        handler.found.append(f"a task: {context.get('exception')!r}, {context['message']}")

    loop.set_exception_handler(failed)
    loggers = [logging.getLogger(name) for name in ("quorate", "asyncio", "grpc")]
    for each in loggers:
        each.addHandler(handler)
        each.propagate = False
    try:
        yield handler.found
    finally:
        loop.set_exception_handler(None)
        for each in loggers:
            each.removeHandler(handler)
            each.propagate = True

"""An archiver that is killed with SIGKILL at a certain point; without Spark, on real stores.

Run by test_crashing.py in a process of its own.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests import seams
from tests.pipeline.archive.support import here
from tests.seams import Seam

from quorate.pipeline.archive.archiving import archive
from quorate.pipeline.stores.client import Stores

POINTS: dict[str, tuple[Seam, int, bool]] = {
    "a file is not complete": (seams.FILE_WRITER_FINISH, 1, False),
    "one of several files is there": (seams.FILE_WRITER_FINISH, 1, True),
    "the last but one file is there": (seams.FILE_WRITER_FINISH, 3, True),
    "all files are there and no histories": (seams.ARCHIVE_HISTORIES_TO_PARQUET, 1, False),
    "all files are there and no commit": (seams.ARCHIVE_TABLE_COMMIT, 1, False),
    "the commit is there and nobody knows": (seams.ARCHIVE_TABLE_COMMIT, 1, True),
    "no store is told": (seams.PIPELINE_CLIENT_TELL_ARCHIVED, 1, False),
}
"""What is called, the how many-th call kills, and whether after it instead of before."""


def dying(call: Callable[..., Any], nth: int, after: bool) -> Callable[..., Any]:
    calls = 0

    def called(*arguments: Any, **fields: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = call(*arguments, **fields)
        if calls == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return called


def main(stores: str, path: str, pattern: str, point: str) -> None:
    seam, nth, after = POINTS[point]
    to = pytest.MonkeyPatch()
    seam.replace(to, dying(seam.real(), nth, after))
    seams.ARCHIVING_PART_MESSAGES_MIN.replace(to, 5_000)
    archive(
        here,
        Stores(stores.split(",")),
        path,
        selects=lambda topic: topic.startswith(pattern),
        parts=4,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

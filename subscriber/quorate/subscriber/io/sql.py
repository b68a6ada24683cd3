"""SQL over rows of the state of the world: rows become a table of Arrow, and DuckDB answers.

It needs the extra `query`. All of it runs in threads. The statement sees one table, `rows`, and
nothing else: no file, no extension, and no variable of the program.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Sequence
from typing import Any

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.payloads import UNDECODABLE, PayloadFormat, as_json, text_of_bytes
from quorate.subscriber.items import ReplayedMessage

TABLE_BYTES_MAX = 2 * 1024 * 1024 * 1024
"""Bytes of the largest table that is made of rows."""

_CONFIGURATION: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}


def check_is_installed() -> None:
    """Raise InvalidArgument if the extra `query` is not installed."""
    try:
        import duckdb  # noqa: F401
        import pyarrow.json  # noqa: F401
    except ModuleNotFoundError as error:
        raise InvalidArgument(
            "sql",
            f"needs {error.name}, which is not installed. Run this in the directory of Quorate: "
            "pip install '.[query]'",
        ) from None


class RowTable:
    """A table of rows, which grows part by part.

    Its columns are the fields of payloads, and `$key`, `$time` and `$source` of each message.
    """

    def __init__(self, form: PayloadFormat = PayloadFormat.JSON) -> None:
        """Begin without rows. form: the format of their payloads."""
        self._form = form
        self._parts: list[Any] = []
        self._bytes = 0

    def add(self, rows: Sequence[ReplayedMessage]) -> None:
        """Add rows. Raises InvalidArgument if a field has values of several types."""
        import pyarrow

        part = _fields_of([row.payload for row in rows], self._form)
        facts = {
            "$key": pyarrow.array([_text(row.key) for row in rows], pyarrow.string()),
            "$time": pyarrow.array(
                [row.timestamp_ns // 1000 for row in rows], pyarrow.timestamp("us", "UTC")
            ),
            "$source": pyarrow.array([str(row.source) for row in rows], pyarrow.string()),
        }
        names = [name for name in part.column_names if name not in facts]
        columns = [*(part.column(name) for name in names), *facts.values()]
        self._parts.append(pyarrow.table(columns, [*names, *facts]))
        self._bytes += self._parts[-1].nbytes
        if self._bytes > TABLE_BYTES_MAX:
            raise InvalidArgument(
                "where",
                f"selects rows of more than {TABLE_BYTES_MAX:,} bytes; narrow it, or select fewer "
                "fields",
            )

    def table(self) -> Any:
        """Return all rows as one pyarrow.Table. Raises InvalidArgument as `add` does."""
        import pyarrow

        if not self._parts:
            self.add(())
        try:
            return pyarrow.concat_tables(self._parts, promote_options="permissive")
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
            raise _mixed(error) from None


class Statement:
    """A statement in SQL that reads the table `rows`."""

    def __init__(self, text: str) -> None:
        """Make a connection for this statement alone. Raises InvalidArgument."""
        check_is_installed()
        import duckdb

        self._text = text
        self._connection = duckdb.connect(":memory:", config=_CONFIGURATION)

    def run(self, table: Any) -> Any:
        """Return the answer as a pyarrow.Table. Raises InvalidArgument."""
        import duckdb

        try:
            with self._connection as connection:
                connection.register("rows", table)
                answer = connection.sql(self._text)
                if answer is None:
                    raise InvalidArgument("statement", f"{self._text[:80]!r} gives no rows")
                return answer.to_arrow_table()
        except duckdb.Error as error:
            raise InvalidArgument("statement", str(error)) from None

    def interrupt(self) -> None:
        """End a run that another thread waits for."""
        self._connection.interrupt()


def _fields_of(payloads: Sequence[bytes], form: PayloadFormat) -> Any:
    """Return the fields of payloads as a table with a row for each."""
    import pyarrow

    table = None
    if form is PayloadFormat.JSON:
        with contextlib.suppress(pyarrow.ArrowInvalid):
            table = _parsed(payloads)
    if table is not None and table.num_rows == len(payloads) and table.num_columns:
        return table
    # Some are no objects in JSON, or have several lines, or types that do not fit.
    objects = [_object_of(payload, form) for payload in payloads]
    if not any(each != b"{}" for each in objects):
        return pyarrow.table({})
    try:
        return _parsed(objects)
    except pyarrow.ArrowInvalid as error:
        raise _mixed(error) from None


def _parsed(payloads: Iterable[bytes]) -> Any:
    """Return a table of lines of JSON, in which texts that look like times stay texts."""
    import pyarrow.json

    lines = b"\n".join(payloads)
    options = pyarrow.json.ReadOptions(use_threads=False, block_size=max(len(lines) + 1, 1))
    table = pyarrow.json.read_json(io.BytesIO(lines), options)
    schema = pyarrow.schema([field.with_type(_without_times(field.type)) for field in table.schema])
    if schema == table.schema:
        return table
    given = pyarrow.json.ParseOptions(explicit_schema=schema)
    return pyarrow.json.read_json(io.BytesIO(lines), options, given)


def _without_times(kind: Any) -> Any:
    import pyarrow

    if pyarrow.types.is_timestamp(kind):
        return pyarrow.string()
    if pyarrow.types.is_list(kind):
        return pyarrow.list_(_without_times(kind.value_type))
    if pyarrow.types.is_struct(kind):
        return pyarrow.struct([field.with_type(_without_times(field.type)) for field in kind])
    return kind


def _object_of(payload: bytes, form: PayloadFormat) -> bytes:
    """Return an object as one line of JSON; an empty one for what is none."""
    try:
        line = as_json(payload, form)
    except UNDECODABLE:
        return b"{}"
    return line if line.startswith(b"{") else b"{}"


def _mixed(error: Exception) -> InvalidArgument:
    return InvalidArgument(
        "rows",
        f"have a field with values of several types ({error}); leave it out with select, such as "
        '"-comment", or narrow the rows with where',
    )


def _text(key: bytes | None) -> str | None:
    return None if key is None else text_of_bytes(key)

"""The batches of an archive's rows in which a message can pass a filter, by the filter's bounds.

Only columns that are quick to read are looked at. Nothing here touches a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from math import inf

import pyarrow as pa
import pyarrow.compute as pc

from quorate.protocol.filters.bounds import Bounds


def columns_of(bounds: Bounds) -> list[str]:
    """Return the columns that decide; empty: the bounds leave no row of a file out."""
    names = ["key"] if bounds.keys is not None else []
    names += ["properties"] if bounds.properties else []
    if bounds.time.low > -inf or bounds.time.high < inf:
        names.append("timestamp_ns")
    return ["batch_first", *names] if names else []


def batches_of(rows: pa.Table, bounds: Bounds) -> pa.ChunkedArray:
    """Return the first number of each batch with a row inside the bounds."""
    masks: list[pa.ChunkedArray] = []
    if bounds.keys is not None:
        masks.append(_is_one_of(rows.column("key"), bounds.keys))
    for name, texts in bounds.properties.items():
        values = pc.map_lookup(rows.column("properties"), name, "first")
        masks.append(_is_one_of(values, texts))
    if "timestamp_ns" in rows.column_names:
        # A filter compares times as such floats, too.
        seconds = pc.divide(pc.cast(rows.column("timestamp_ns"), pa.float64(), safe=False), 1e9)
        low, high = bounds.time.low, bounds.time.high
        masks += [pc.greater_equal(seconds, low), pc.less_equal(seconds, high)]
    return rows.column("batch_first").filter(reduce(pc.and_, masks))


def _is_one_of(values: pa.ChunkedArray, texts: Iterable[str]) -> pa.ChunkedArray:
    # A text with half a character is that of no key.
    wanted = [text.encode(errors="surrogatepass") for text in texts]
    return pc.is_in(values, value_set=pa.array(wanted, pa.binary()))

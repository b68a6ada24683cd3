"""One schema, said twice; and what of it users may ask for."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from quorate.pipeline.schema import ARROW, DDL, projection
from quorate.protocol.errors import InvalidArgument


def test_spark_and_arrow_have_the_same_schema(spark: SparkSession) -> None:
    assert isinstance(spark, SparkSession)  # parsing needs one
    parsed = StructType.fromDDL(DDL)
    assert isinstance(parsed, StructType)
    said = to_arrow_schema(parsed, timezone="UTC")
    assert projection(said).equals(said)
    assert [(field.name, field.nullable) for field in said] == [
        (field.name, field.nullable) for field in ARROW
    ]


def test_fewer_columns_in_any_order_and_nullable() -> None:
    wanted = pa.schema([("payload", pa.binary()), ("topic", pa.string())])
    assert projection(wanted) == wanted


@pytest.mark.parametrize(
    ("field", "says"),
    [
        (pa.field("price", pa.int64()), "there is no column price; the columns are topic, source"),
        (pa.field("sequence", pa.int32()), "sequence is int64, not int32"),
        (pa.field("key", pa.binary(), nullable=False), "key may be null"),
    ],
)
def test_what_there_is_not_is_refused(field: pa.Field, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        projection(pa.schema([field]))

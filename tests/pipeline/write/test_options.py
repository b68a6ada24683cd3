"""Options of writing: what is said, what may not be, and that errors name it."""

from __future__ import annotations

import pytest

from quorate.pipeline.write.options import (
    TIMEOUT_SECONDS,
    WriteOptions,
    write_options,
)
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.policy import IntergroupRule

STORES = "a=h:7301,b=h:7302,c=h:7303"


def batch(**given: str) -> WriteOptions:
    return write_options({"stores": STORES, **given}, streaming=False)


def test_stores_alone_will_do() -> None:
    made = batch()
    assert made.layout.policy.stores == {"a", "b", "c"}
    assert (made.topic, made.write_id, made.batch) == ("", "", 0)
    assert (made.timeout, made.state_lifetime) == (TIMEOUT_SECONDS, None)


def test_all_may_be_said_in_any_case() -> None:
    made = batch(topic="t", WRITEID="nightly", batchId="7", timeout="1.5", stateLifetime="3600")
    assert (made.topic, made.write_id, made.batch) == ("t", "nightly", 7)
    assert (made.timeout, made.state_lifetime) == (1.5, 3600.0)


def test_groups_with_their_rule() -> None:
    options = {"groups": "x=h:1,h:2,h:3  y/all=h:4,h:5", "intergroup": "all"}
    layout = write_options(options, streaming=True).layout
    assert [group.name for group in layout.policy.groups] == ["x", "y"]
    assert layout.policy.rule is IntergroupRule.ALL


def test_what_spark_puts_there_is_no_mistake() -> None:
    write_options({"stores": STORES, "checkpointLocation": "/c", "path": "p"}, streaming=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"stores": ""}, "option stores: is missing"),
        ({"stores": "nonsense"}, "stores"),
        ({"groups": "x=h:1"}, "option stores: is part of"),
        ({"intergroup": "all"}, "option intergroup: has no effect without the option groups"),
        ({"topic": "a\nb"}, "option topic"),
        ({"batchId": "7"}, "option batchId: is the number of a batch of writeId"),
        ({"writeId": "w", "batchId": "-1"}, "batchId: -1 is negative"),
        ({"writeId": "w", "batchId": "x"}, "option batchId"),
        ({"writeId": "w" * 300}, "writeId"),
        ({"timeout": "0"}, "option timeout"),
        ({"timeout": "soon"}, "option timeout"),
        ({"stateLifetime": "inf"}, "option stateLifetime"),
        ({"topics": "x"}, "did you mean topic"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        batch(**given)


@pytest.mark.parametrize("name", ["writeId", "batchId"])
def test_a_stream_takes_no_write_id(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"option {name}: is for batch writes"):
        write_options({"stores": STORES, name: "7"}, streaming=True)

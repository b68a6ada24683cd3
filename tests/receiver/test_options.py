"""The settings of a receiver, and those that it shares with a source: values of another kind."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.protocol.delays import Delays
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.pacing import ReceiverPacing
from quorate.receiver import ReceiverOptions


@pytest.mark.parametrize(
    ("made", "setting", "said"),
    [
        (ReceiverOptions, {"choose_start": 5}, "choose_start: 5 is not a function"),
        (ReceiverOptions, {"buffer_bytes": "1"}, "buffer_bytes: '1' is not a whole number"),
        (ReceiverOptions, {"request_maximum": 1.5}, "request_maximum: 1.5 is not a whole number"),
        (ReceiverOptions, {"waited_for": "no"}, "waited_for: 'no' is not true or false"),
        (Delays, {"first": "1"}, "delays.first: '1' is not a number"),
        (ReceiverPacing, {"bytes": "1"}, "receiver_pacing.bytes: '1' is not a whole number"),
    ],
)
def test_a_value_of_another_kind_is_named(made: Any, setting: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        made(**setting)


def test_a_function_may_choose_the_start() -> None:
    assert ReceiverOptions(choose_start=lambda point: point.low).choose_start is not None

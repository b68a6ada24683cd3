"""`quorate status` says what stores lack, what is done about it, and how fast."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests import seams
from typer.testing import CliRunner

from quorate.console.main import app
from quorate.protocol.errors import QuorateError, Unreachable
from quorate.protocol.exit_codes import UNHEALTHY
from quorate.protocol.identity import StoreAddress
from quorate.v1.messages_pb2 import HeldRange, SourceInformation, SourceName
from quorate.v1.store_pb2 import RepairStatus, SourceStatus, StatusResponse

FETCHING = "fetching orders/0x10 from b"
REPAIRING = RepairStatus(now=FETCHING, bytes_per_second=5_242_880.4)
HALF = SourceStatus(
    information=SourceInformation(source=SourceName(topic="orders", session_id=0x10)),
    held=[HeldRange(first=1234, last=1999)],
    stable_upto=1999,
)
IDLE = RepairStatus(now="idle")


def shown(to: pytest.MonkeyPatch, *arguments: str) -> str:
    """What the command shows of a store under repair, one with nothing to do and one away."""

    async def ask_all(
        stores: Sequence[StoreAddress], _: float, __: str = ""
    ) -> dict[StoreAddress, StatusResponse | QuorateError]:
        one, other, away = stores
        return {
            one: StatusResponse(store_name="a", incarnation=b"a", repair=REPAIRING, sources=[HALF]),
            other: StatusResponse(store_name="b", incarnation=b"b", repair=IDLE),
            away: Unreachable(away.address, "refused"),
        }

    seams.GROUP_STATUS_ASK_ALL.replace(to, ask_all)
    command = ["status", "--stores", "a=h:1,b=h:2,c=h:3", *arguments]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == UNHEALTHY
    return result.stdout


def facts(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["store"], row["lacking"], row["repair"], row["repair_bytes_per_second"]


ROWS = [("a", 1234, FETCHING, 5_242_880), ("b", 0, "idle", 0), ("c", None, None, None)]


def test_machines_are_told_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    told = json.loads(shown(monkeypatch, "-o", "json"))
    assert [facts(row) for row in told["stores"]] == ROWS
    lines = [json.loads(line) for line in shown(monkeypatch, "-o", "jsonl").splitlines()]
    assert [facts(row) for row in lines if row["kind"] == "store"] == ROWS


def test_people_are_shown_it_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line.split() for line in shown(monkeypatch, "-o", "table").splitlines()]
    (heading,) = [words for words in lines if words[:2] == ["store", "address"]]
    assert heading[-3:] == ["lacking", "repair", "repair_KiB/s"]
    ends = {words[0]: words for words in lines if words[:1] and words[0] in ("a", "b", "c")}
    assert ends["a"][-6:] == ["1,234", *FETCHING.split(), "5,120.0"]
    assert ends["b"][-3:] == ["0", "idle", "0.0"]
    assert ends["c"][-3:] == ["-", "-", "-"]

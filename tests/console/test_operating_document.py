"""docs/operating.md says what is: the commands of operators run on real stores."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.console.command import Ran, quorate
from tests.documents import Document, shape
from tests.store.group import Group
from tests.store.support import batch

from quorate.client import connect
from quorate.console.group.rules.findings import Kind
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.v1 import messages_pb2 as v1

pytestmark = pytest.mark.processes

PAGE = Document("operating")
CONSOLES = PAGE.blocks("console")
ORDERS = SourceName("orders", 1)
STORES = ("store-a", "store-b", "store-c")

Found = Callable[..., Awaitable[Group]]


@pytest.fixture
async def found(tmp_path: Path) -> AsyncIterator[Found]:
    """Found a group of stores in this process."""
    made: list[Group] = []

    async def found(*names: str) -> Group:
        group = Group(tmp_path, names)
        made.append(group)
        await group.found()
        return group

    yield found
    for group in made:
        await group.stop(*group.nodes)


def shown(beginning: str) -> Iterator[tuple[list[str], str]]:
    """Yield each command of the block that begins so: its words, and what it shows."""
    (console,) = (each for each in CONSOLES if each.startswith(f"$ quorate {beginning}"))
    for step in re.split(r"^\$ quorate ", console, flags=re.M)[1:]:
        line, _, output = step.partition("\n")
        yield shlex.split(line, comments=True), output


def first(beginning: str) -> tuple[list[str], str]:
    """Return the first command of the page that begins so."""
    begins = (each for each in CONSOLES if each.startswith(f"$ quorate {beginning}"))
    line, _, output = next(begins).removeprefix("$ quorate ").partition("\n")
    return shlex.split(line), output


def only(beginning: str) -> tuple[list[str], str]:
    """Return the only command of such a block."""
    (found,) = shown(beginning)
    return found


def answered(output: str) -> str:
    """Return what a command shows in a document, without the question that a person answered."""
    return re.sub(r"^.*\[y/N\]: y\n", "", output, flags=re.M)


def named(group: Group) -> str:
    return ",".join(f"{name}={address}" for name, address in group.addresses.items())


async def run(group: Group, words: Iterable[str], *more: str) -> Ran:
    """Run a command with the stores that run here. more: options, as nobody can be asked."""
    return await quorate(*words, *more, QUORATE_STORES=named(group))


async def fill(
    group: Group, name: str, ranges: Iterable[range], source: SourceName = ORDERS, salt: str = ""
) -> None:
    """Let a store take these numbers, and know that all are stable."""
    async with group.client(name) as client:
        stream = await client.stream(source=source, stores=group.addresses.values())
        last = -1
        for part in ranges:
            if part.start > last + 1:
                skip = v1.Skip(first=last + 1, last=part.start - 1)
                await stream.send(v1.Frame(skip=skip, stable_upto=part.start - 1))
            last = part.stop - 1
            await stream.batch(batch(part.start, last, source=source, salt=salt), last)
        await stream.durable(last)
        await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=last))
        await stream.close()


def is_quiet(seen: dict[str, Any]) -> bool:
    """Return whether no store repairs, and each receiver has acknowledged something."""
    acknowledged = [row["acknowledged_upto"] for row in seen["receivers"]]
    return min(acknowledged) >= 0 and {row["repair"] for row in seen["stores"]} == {"idle"}


async def status(group: Group) -> dict[str, Any]:
    result = await run(group, ["status", "-o", "json"])
    read: dict[str, Any] = json.loads(result.out)
    return read


def test_each_kind_of_finding_is_named_once() -> None:
    named = [kind for cells in PAGE.table("`kind`") for kind in re.findall(r"`(.+?)`", cells[0])]
    assert sorted(named) == sorted(Kind)


async def test_what_is_wrong_when_a_store_was_killed(found: Found) -> None:
    group = await found(*"abc")
    await group.stop("c")
    words, output = only("check")
    result = await run(group, words)
    assert result.code == 10
    assert shape(result.out) == shape(output)


async def test_a_group_in_which_all_is_well(found: Found) -> None:
    group = await found(*"abc")
    words, output = first("status\n")
    async with connect(named(group)) as client, client.source("orders", session_id=1) as source:
        for number in range(4):
            await source.publish(b"%d" % number)
        async with client.receiver("orders", session_id=2) as receiver:
            for _ in range(4):  # Taking a message acknowledges the one before.
                assert await receiver.receive(timeout=30) is not None
            while not is_quiet(await status(group)):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.1)
            # A store compares itself with its peers now and then.
            while "comparing" in (result := await run(group, words)).out:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    assert result.code == 0, result.err
    assert shape(result.out + result.err) == shape(output)


async def test_a_file_of_a_store_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, output = only("store validate")
    monkeypatch.chdir(tmp_path)
    (tmp_path / words[-1]).write_text(
        'name = "store a"\ndata_directory = "data"\nlisten = "nowhere"\nretention_bytes = -1\n'
        'durabilty = "fsync"\n[[topic]]\npattern = "("\n'
    )
    result = await quorate(*words)
    assert (result.code, result.err) == (78, output)


@pytest.mark.expects_log("by an operator")
async def test_messages_are_marked_as_poison(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    group = await found(*"abc")
    for name in "abc":
        await fill(group, name, [range(300)])
    for words, output in shown("poison add"):
        result = await run(group, words, *(["--yes"] if words[1] != "list" else []))
        assert result.code == 0, result.err
        assert shape(result.err + result.out) == shape(answered(output))


async def test_stores_repair_and_list_their_journal(found: Found) -> None:
    group = await found(*"abc")
    for name in "abc":
        await fill(group, name, [range(300)])
    for beginning in ("repair", "journal --by"):
        words, output = only(beginning)
        result = await run(group, words)
        assert result.code == 0, result.err
        assert shape(result.out + result.err) == shape(output)


@pytest.mark.expects_log("by an operator|in limbo|lacks|waits for|does not take")
async def test_a_store_is_readmitted_and_the_others_leave_limbo(found: Found) -> None:
    group = await found(*STORES)
    async with connect(named(group)) as client, client.source("orders", session_id=1) as source:
        await source.publish(b"x")
    await group.wipe("store-b", "store-c")
    await group.start("store-b", "store-c")
    words, output = only("store readmit")
    result = await run(group, words, "--yes")
    assert result.code == 0, result.err
    assert shape(result.err + result.out) == shape(answered(output))
    await group.vouching(*STORES)
    losses = (await status(group))["losses"]
    assert isinstance(losses, list)
    assert "both disks burnt; Ada" in {row["reason"] for row in losses}


@pytest.mark.expects_log("by an operator|lacks")
async def test_a_loss_is_accepted(found: Found) -> None:
    group = await found(*STORES)
    for name in STORES:
        await fill(group, name, [range(120), range(141, 150)])
    words, output = only("loss accept")
    result = await run(group, words, "--yes")
    assert result.code == 0, result.err
    assert shape(result.err + result.out) == shape(answered(output))
    async with group.client("store-a") as client:
        assert (await client.fetch(source=ORDERS)).missing == [(120, 140, v1.LOOKUP_LOST)]


@pytest.mark.expects_log("hold other content|by an operator")
async def test_a_conflict_is_settled(found: Found) -> None:
    group = await found(*STORES[:2])
    await fill(group, "store-a", [range(20)])
    await fill(group, "store-b", [range(20)], salt="other ")
    assert (await run(group, ["repair"])).code == 1
    words, output = only("conflict settle")
    result = await run(group, words, "--yes")
    assert result.code == 0, result.err
    *before, after = result.err.splitlines(keepends=True)
    assert shape("".join(before) + result.out + after) == shape(answered(output))
    assert (await run(group, ["repair"])).code == 0


async def test_what_is_old_is_removed(found: Found) -> None:
    group = await found(*"abc")
    trades = SourceName("trades", 1)
    await group.stop(*"abc")
    retained = {"topic": ({"pattern": "trades", "retain_until": ["archived"]},)}
    group.overrides = dict.fromkeys("abc", retained)
    await group.start(*"abc")
    for name in "abc":
        await fill(group, name, [range(300)])
        await fill(group, name, [range(300)], trades)
    words, output = only("journal remove")
    result = await run(group, words, "--yes")
    assert result.code == 0, result.err
    table = output.partition("Removed")[2]
    assert shape(result.out.partition("Removed")[2]) == shape(table)


async def test_a_group_is_backed_up_and_founded_anew(found: Found, tmp_path: Path) -> None:
    group = await found(*"abc")
    for name in "abc":
        await fill(group, name, [range(100)])
    words, output = only("store backup")
    backup = str(tmp_path / "backup")
    result = await run(group, [*words[:2], backup])
    assert result.code == 0, result.err
    assert words[2] == "/backup/2026-11-27"
    assert shape(result.out + result.err.replace(backup, words[2])) == shape(output)
    await group.wipe(*"abc")
    words, output = only("store restore")
    assert words[2:4] == ["/backup/2026-11-27", "-c"]
    for name, address in group.addresses.items():
        file = tmp_path / f"store-{name}.toml"
        data = str(group.directory / name)
        file.write_text(f'name = "{name}"\ndata_directory = "{data}"\nlisten = "{address}"\n')
        result = await run(group, [*words[:2], backup, "-c", str(file), *words[5:]])
        assert result.code == 0, result.err
        if name == "a":
            said = (result.out + result.err).replace(data, "/var/lib/quorate/store-a")
            assert shape(said) == shape(output)
    await group.start(*"abc")
    await group.vouching(*"abc")
    for name in "abc":
        async with group.client(name) as client:
            assert len((await client.fetch(source=ORDERS)).messages) == 100


@pytest.mark.expects_log("is deregistered|does not register|waits for")
async def test_a_receiver_and_a_source_are_forgotten(found: Found) -> None:
    group = await found(*"abc")
    async with connect(named(group)) as client, client.source("orders", session_id=1) as source:
        await source.publish(b"x")
        async with client.receiver("orders", session_id=2) as receiver:
            assert await receiver.receive(timeout=30) is not None
    commands = list(shown("deregister"))
    assert ["--receiver" in words for words, _ in commands] == [True, False]
    for words, output in commands:
        result = await run(group, words)
        assert result.code == 0, result.err
        assert shape(result.out) == shape(output)
    assert (await status(group))["sources"] == []


DIRECTORY = "/var/lib/quorate/store-a"


async def test_a_store_that_is_stopped_is_read(found: Found) -> None:
    group = await found("store-a")
    async with connect(named(group)) as client, client.source("orders", session_id=1) as source:
        for payload in (b"first", b"second", b"third", b"fourth"):
            await source.publish(payload, key=b"acme", properties={"region": b"eu"})
        async with client.receiver("orders", session_id=2) as receiver:
            for _ in range(4):  # Taking a message acknowledges the one before.
                assert await receiver.receive(timeout=30) is not None
    await group.stop("store-a")
    for words, output in shown("store dump"):
        assert words[2] == DIRECTORY
        result = await run(group, [*words[:2], str(group.directory / "store-a"), *words[3:]])
        assert result.code == 0, result.err
        assert shape(result.err + result.out) == shape(output)


@pytest.mark.expects_log("messages aside")
async def test_messages_that_were_set_aside_are_shown(found: Found) -> None:
    group = await found("store-a")
    source = SourceName("orders", 0x10)
    await fill(group, "store-a", [range(15)], source)
    async with group.client("store-a") as client:
        stream = await client.open(source=source, retained_from=15)
        await stream.append(15, 39, source=source)
        await stream.close()
        await client.promise(2, source=source)
        await client.begin(Lineage((Term(1, 0), Term(2, 15))), source=source)
    await group.stop("store-a")
    (_, output), _ = commands = list(shown("store aside"))
    results = []
    for words, _ in commands:
        assert words[2] == DIRECTORY
        options = words[3 : words.index(">") if ">" in words else None]
        ran = await run(group, [*words[:2], str(group.directory / "store-a"), *options])
        assert ran.code == 0, ran.err
        results.append(ran)
    assert shape(results[0].out) == shape(output)
    assert [row["sequence"] for row in results[1].rows()] == list(range(15, 40))

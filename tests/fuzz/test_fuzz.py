"""A short run of the fuzzer, and what it found before. `make fuzz` runs it for longer."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz import corpus, lies, live, store
from tests.fuzz.decoders import Target, targets
from tests.fuzz.judge import Finding, each_judged, judged, warnings_found
from tests.fuzz.mutation import Mutator

from quorate.client.file_settings import read_file
from quorate.protocol.bookmarks import Bookmark, Position
from quorate.protocol.errors import ConfigurationInvalid, DataDirectoryCorrupt, InvalidArgument
from quorate.protocol.identity import StoreAddress
from quorate.protocol.layout_text import read_toml
from quorate.store.configuration import load
from quorate.store.storage.clean_shutdown import left_over
from quorate.store.storage.data_directory import read_identity

_INPUTS = 30
_CORPUS_BYTES_MAX = 1_000_000
_LONG = "9" * 5000
_DEEP = "[" * 100_000


def test_every_reader_takes_its_seeds(tmp_path: Path) -> None:
    for name, target in targets(tmp_path).items():
        seeds = target.seeds()
        assert seeds, name
        for seed in seeds:
            target.read(seed)


def test_some_changed_inputs_break_no_reader(tmp_path: Path) -> None:
    assert each_judged(targets(tmp_path), 0, _INPUTS) == []


def test_a_seed_makes_the_same_inputs_again(tmp_path: Path) -> None:
    for target in targets(tmp_path).values():
        assert target.input(Mutator(7)) == target.input(Mutator(7))


def test_a_reader_that_fails_is_found() -> None:
    def broken(data: bytes) -> None:
        raise KeyError(data[:1])

    target = Target(lambda: [b"seed"], broken, lambda _, seed, __: seed)
    finding = judged("broken", target, 3)
    assert finding is not None
    assert "KeyError in broken" in finding.what
    assert "--target 'broken' --first 3 --inputs 1" in str(finding)


def test_a_call_that_nobody_awaits_is_found() -> None:
    async def never_awaited() -> None:
        pass

    findings: list[Finding] = []
    with warnings_found("store", 3, findings):
        never_awaited()  # type: ignore[unused-coroutine]
    (finding,) = findings
    assert "never_awaited' was never awaited" in finding.what
    assert "--target 'store' --first 3 --inputs 1" in str(finding)


def test_the_corpus_is_small_and_has_every_request() -> None:
    kinds = corpus.kinds()
    assert sum(len(each) for kind in kinds for each in corpus.inputs(kind)) < _CORPUS_BYTES_MAX
    lacking = [kind for kind in kinds if kind.endswith("Request") and not corpus.inputs(kind)]
    assert lacking == []


@pytest.mark.expects_log(".*")
def test_a_store_bears_a_round_of_changed_requests(tmp_path: Path) -> None:
    found, inputs = store.rounds(tmp_path, 0, 1, calls=100)
    assert (found, inputs) == ([], 100)


@pytest.mark.expects_log(".*")
def test_a_source_bears_a_round_of_changed_requests(tmp_path: Path) -> None:
    found, inputs = live.rounds(tmp_path, 0, 1)
    assert (found, inputs) == ([], live.CALLS)


@pytest.mark.expects_log(".*")
def test_clients_bear_a_round_of_changed_answers(tmp_path: Path) -> None:
    found, inputs = lies.rounds(tmp_path, 0, 1)
    assert found == []
    assert inputs


# -- what the fuzzer found ---------------------------------------------------------------------


@pytest.mark.parametrize("text", [f"orders/0x1@7:{_LONG}", f"orders/0x1@{_LONG}:1"])
def test_a_bookmark_with_a_very_long_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="bookmark"):
        Bookmark.parse(text)


def test_a_position_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="position"):
        Position.parse(_DEEP)


@pytest.mark.parametrize("text", [f"a=127.0.0.1:{_LONG}", f"a=127.0.0.1:1#{_LONG}"])
def test_an_address_with_a_very_long_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="store"):
        StoreAddress.parse(text)


@pytest.mark.parametrize("content", [f"a = {_LONG}", f"a = {_DEEP}"])
def test_a_toml_file_with_an_unreadable_value_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "file.toml"
    path.write_text(content)
    for read in (load, read_file):
        with pytest.raises(ConfigurationInvalid):
            read(path)
    with pytest.raises(ConfigurationInvalid):
        read_toml(content)


@pytest.mark.parametrize("content", [b"\xff", b"[" * 100_000, b'{"format": Infinity}'])
def test_a_damaged_file_of_a_data_directory_is_refused(content: bytes, tmp_path: Path) -> None:
    for name in ("FORMAT", "running"):
        (tmp_path / name).write_bytes(content)
    for read in (read_identity, left_over):
        with pytest.raises(DataDirectoryCorrupt):
            read(tmp_path)


def test_a_store_configuration_with_a_superscript_port_is_refused() -> None:
    with pytest.raises(ConfigurationInvalid, match="listen"):
        load(None, {"name": "a", "data_directory": "/a", "listen": "127.0.0.1:²"})


def test_the_corpus_has_no_path_of_a_machine() -> None:
    for kind in corpus.kinds():
        assert not any(b"/tmp/" in each for each in corpus.inputs(kind)), kind

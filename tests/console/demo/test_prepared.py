"""The prepared messages are those of the input, and each life of the source goes on in them."""

from pathlib import Path

from quorate.console.demo.flights import messages
from quorate.console.demo.prepared import Prepared, is_prepared, prepare


def lines(directory: Path, count: int) -> Path:
    path = directory / "lines.txt"
    path.write_bytes(b"".join(b"%d\twith a tab\n" % number for number in range(count)))
    return path


def test_all_messages_are_those_of_the_input(tmp_path: Path) -> None:
    path = lines(tmp_path, 5)
    assert not is_prepared(tmp_path / "input")
    prepare(tmp_path / "input", path)
    assert is_prepared(tmp_path / "input")
    prepared = Prepared(tmp_path / "input")
    assert prepared.totals == {"lines": 5}
    assert list(prepared.remaining({"lines": 0})) == list(messages(path))


def test_a_later_life_gets_what_has_no_number_yet(tmp_path: Path) -> None:
    (tmp_path / "messages").write_bytes(b"a\t0\nb\t0\na\t1\nb\t1\na\t\n")
    (tmp_path / "totals.json").write_text('{"a": 3, "b": 2}')
    prepared = Prepared(tmp_path)
    assert list(prepared.remaining({"a": 1, "b": 2})) == [("a", b"1"), ("a", b"")]
    assert list(prepared.remaining({"a": 3, "b": 2})) == []


def test_a_life_that_was_killed_while_it_prepared_leaves_nothing_that_counts(
    tmp_path: Path,
) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "messages").write_bytes(b"lines\t0\nlines\t1")
    assert not is_prepared(tmp_path / "input")
    prepare(tmp_path / "input", lines(tmp_path, 3))
    assert Prepared(tmp_path / "input").totals == {"lines": 3}

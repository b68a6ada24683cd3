from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from quorate.console.group.children import Child, StoreChild
from quorate.protocol.errors import Fenced, StoreNotReady

INFO = "2026-01-02T03:04:05.678Z INFO quorate.store: store a serves"
WARNING = "2026-01-02T03:04:06.678Z WARNING quorate.store: the disk is slow"
ERROR = json.dumps({"error": "Fenced", "fields": {"who": "a", "epoch": "1", "promised": "2"}})


@pytest.mark.parametrize(
    ("logged", "words"),
    [
        ((WARNING, INFO), WARNING),
        ((INFO, "Segmentation fault", INFO), "Segmentation fault"),
        ((INFO,), "its log does not say why"),
        ((), "its log does not say why"),
        ((WARNING, ERROR), str(Fenced("a", 1, 2))),
    ],
)
async def test_only_what_went_wrong_this_time_is_said_of_a_child_that_ended(
    tmp_path: Path, logged: tuple[str, ...], words: str
) -> None:
    (tmp_path / "saying.py").write_text("import sys; print(sys.argv[1], file=sys.stderr)")
    child = Child("a", ("saying",), tmp_path / "a.log")
    child.log.write_text("WARNING of an earlier run\n")
    with pytest.MonkeyPatch.context() as to:
        to.setenv("PYTHONPATH", str(tmp_path))
        await child.spawn("\n".join(logged))
    assert await child.wait() == 0
    assert child.last_words() == words


async def test_a_store_that_does_not_start_is_said_with_its_log_and_how_to_start_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StoreChild("a", tmp_path / "a b", "127.0.0.1:1", ["127.0.0.1:2"])
    assert store.command == (
        f"quorate store run --name a --data-directory '{tmp_path / 'a b'}' "
        "--peer=127.0.0.1:2 --listen 127.0.0.1:1"
    )
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(StoreNotReady) as raised:
        await store.start()
    assert str(tmp_path / "a b.log") in str(raised.value)
    assert "address right" not in str(raised.value)

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.protocol.errors import DataDirectoryCorrupt
from quorate.store.storage import clean_shutdown
from quorate.store.storage.clean_shutdown import Run


def test_a_run_is_noted_until_it_ends(tmp_path: Path) -> None:
    assert clean_shutdown.left_over(tmp_path) is None
    run = Run("boot", "os", (("orders", "fsync"), ("quotes.*", "memory")))
    clean_shutdown.begin(tmp_path, run)
    assert clean_shutdown.left_over(tmp_path) == run
    clean_shutdown.end(tmp_path)
    assert clean_shutdown.left_over(tmp_path) is None
    clean_shutdown.end(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", '{"boot": "b", "synced": true, "topics": [1]}'])
def test_a_damaged_note_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "running").write_text(text)
    with pytest.raises(DataDirectoryCorrupt, match="the file 'running' cannot be read"):
        clean_shutdown.left_over(tmp_path)


def test_only_what_was_not_synced_is_lost_with_the_host() -> None:
    run = Run("boot", "fsync", (("quotes.*", "os"), ("quotes-slow", "fsync"), ("ticks", "memory")))
    assert not run.may_have_lost("quotes", "boot")
    assert run.may_have_lost("quotes", "another")
    assert run.may_have_lost("quotes-slow", "another"), "the first pattern counts"
    assert not run.may_have_lost("orders", "another")
    assert "memory" in run.may_have_lost("ticks", "boot"), "it ended without a clean stop"
    assert "memory" in run.may_have_lost("ticks", "another")


def test_who_kept_state_only_has_lost_nothing() -> None:
    run = Run("boot", "state-only", (("quotes", "os"),))
    assert not run.may_have_lost("orders", "another")
    assert run.may_have_lost("quotes", "another")


def test_what_can_not_be_told_counts_as_another_boot() -> None:
    assert Run("", "os").may_have_lost("orders", "")
    assert Run("", "os").may_have_lost("orders", "boot")
    assert Run("boot", "os").may_have_lost("orders", "")


def test_a_boot_has_an_id_that_stays() -> None:
    assert clean_shutdown.boot_id() == clean_shutdown.boot_id()

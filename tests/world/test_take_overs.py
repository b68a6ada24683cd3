"""Of several instances of a source one lives on, and never one that was replaced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests import seams
from tests.world.script import Script

from quorate.store.rules.acceptor import StoreCore

pytestmark = pytest.mark.expects_log(".*")
HEARD_SECONDS = 20.0
"""By then each instance has heard who came after it."""


def who_lives(seed: int, directory: Path) -> tuple[bool, int]:
    """Return whether the replaced instance lives on, and how many of its successors do.

    The first instance reaches some stores only while one or two others take over. Each of these may
    miss a store, too.
    """
    random = Random(seed)
    with Script(seed, directory) as script:
        first = script.start_source()
        script.until(lambda: len(first.receipts) > 1)
        mends = [script.cut(first.name, *random.sample(script.names, random.choice((0, 1, 2))))]
        script.run(random.choice((0.0, 5.0)))
        later = []
        for _ in range(random.choice((1, 2))):
            later.append(script.start_source())
            if random.random() < 0.3:
                mends.append(script.cut(later[-1].name, random.choice(script.names)))
            script.run(random.uniform(0.0, 0.01))
        script.run(random.uniform(0.0, 5.0))
        for mend in mends:
            mend()
        script.run(HEARD_SECONDS)
        alive = [each for each in later if each.error is None]
        sent = [len(each.receipts) for each in alive]
        script.run(1.0)
        sending = sum(len(each.receipts) > n for each, n in zip(alive, sent, strict=True))
        return first.error is None, sending


@pytest.mark.parametrize("seed", range(8))
def test_one_lives_on_and_it_is_not_the_one_that_was_replaced(seed: int, tmp_path: Path) -> None:
    assert who_lives(seed, tmp_path) == (False, 1)


def same_promise_to_anyone(to: pytest.MonkeyPatch) -> None:
    """An epoch that was promised to one instance is promised to another, too."""
    real = seams.STORE_CORE_PROMISE.real()

    def promise(self: StoreCore, source: Any, epoch: int, instance: bytes, *rest: Any) -> Any:
        state = self.sources.get(source)
        if state is not None and epoch == state.registration.promised_epoch:
            state.registration = replace(state.registration, promised_to=instance)
        return real(self, source, epoch, instance, *rest)

    seams.STORE_CORE_PROMISE.replace(to, promise)


def test_where_an_epoch_is_promised_to_anyone_another_one_lives_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same_promise_to_anyone(monkeypatch)
    assert who_lives(0, tmp_path) != (False, 1)

"""A rule that is taken out of the product changes its story: so much are the stories worth.

Each story is also played with the rule, by `test_transcripts`, and goes as recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest
from tests import seams
from tests.transcripts.recorded import path_of, played

from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.recovery import Promise

Patch = Callable[[pytest.MonkeyPatch], None]

pytestmark = pytest.mark.expects_log(".*")  # Stores complain of what happens to them.


def _answers_before_the_commit(to: pytest.MonkeyPatch) -> None:
    """A store answers before what it says is on its disk."""

    async def made_durable(self: Any, state: Any, change: Any) -> Any:
        self.end_streams(change)
        self.submit(state, change.writes)
        return change.answer

    seams.STORE_ENGINE_MADE_DURABLE.replace(to, made_durable)


def _promise_leaves_the_stream(to: pytest.MonkeyPatch) -> None:
    """A promise does not end the stream of the lower epoch."""
    seams.SOURCE_STATE_END_STREAM.replace(to, lambda *_: ())


def _no_floor(to: pytest.MonkeyPatch) -> None:
    """A message that may have been stable on silent stores does not count as such."""
    seams.RECOVERY_MAY_BE_STABLE_UPTO.replace(to, lambda *given: given[-1])


def _nothing_is_set_aside(to: pytest.MonkeyPatch) -> None:
    """A store keeps its tail when it takes a lineage over that does not have it."""
    seams.DIVERGES_AT_IN_ACCEPTOR.replace(to, lambda *_: SEQUENCE_MAX)


def _ends_do_not_win(to: pytest.MonkeyPatch) -> None:
    """The newest begin that is no end names the stream."""
    real = seams.RECOVERY_NEWEST_BEGUN.real()

    def newest_begun(promises: Iterable[Promise]) -> Promise:
        known = list(promises)
        going_on = [each for each in known if not each.begun.ended]
        return cast(Promise, real(going_on or known))

    seams.RECOVERY_NEWEST_BEGUN.replace(to, newest_begun)
    seams.NEWEST_BEGUN_IN_SOURCE_REGISTRATION.replace(to, newest_begun)


def _nothing_is_held_back(to: pytest.MonkeyPatch) -> None:
    """A receiver hands over what is not stable."""
    seams.RECEIVER_STREAM_LIMIT.replace(to, lambda _: SEQUENCE_MAX)


@pytest.mark.parametrize(
    ("take_out", "story"),
    [
        (_answers_before_the_commit, "first_registration"),
        (_promise_leaves_the_stream, "two_sources_with_one_identity"),
        (_no_floor, "floor_that_is_kept"),
        (_nothing_is_set_aside, "restart_with_divergent_tails"),
        (_ends_do_not_win, "stream_that_ends"),
        (_nothing_is_held_back, "proxy_and_return"),
    ],
)
def test_a_rule_that_is_taken_out_changes_its_story(
    take_out: Patch, story: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as to:
        take_out(to)
        try:
            transcript = played(story)
        except AssertionError:  # It does not come to what the story waits for.
            return
    assert transcript != path_of(story).read_text()

"""The checker: it lets pass what is right, and finds each kind of wrong."""

from __future__ import annotations

import pytest
from tests.world.checker import check
from tests.world.seen import Seen, Stream, Taken

WHOLE = [(0, b"a"), (1, b"b"), (2, b"c")]


def seen(**given: object) -> Seen:
    """Return what is seen in a world without faults, but for what is given."""
    usual = {
        "stable": dict(WHOLE),
        "taken": [Taken(-1, WHOLE[:2]), Taken(1, WHOLE[1:])],
        "replayed": WHOLE,
        "read": WHOLE,
    }
    return Seen([Stream(**{**usual, **given})])  # type: ignore[arg-type]


def test_what_is_right_passes() -> None:
    check(seen(), 0)


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"read": WHOLE[:2]}, "2 was stable"),
        ({"read": [*WHOLE[:2], (2, b"x")]}, "2 was stable"),
        ({"read": WHOLE[1:]}, "read back 1 after -1"),
        ({"taken": [Taken(-1, [WHOLE[0], WHOLE[2]])]}, "a gap: 2 after 0"),
        ({"taken": [Taken(-1, WHOLE[1:])]}, "began at 1 after -1"),
        ({"taken": [Taken(-1, WHOLE[:1]), Taken(0, WHOLE[2:])]}, "began at 2 after 0"),
        ({"taken": [Taken(-1, [(0, b"x")])]}, "0 has two contents"),
        ({"replayed": [WHOLE[0], *WHOLE]}, "replayed 0 after 0"),
        ({"replayed": [WHOLE[0], WHOLE[2]]}, "replayed 2 after 0"),
        ({"replayed": [(0, b"x")]}, "0 has two contents"),
        ({"conflicts": ["0: b'a', then b'b'"]}, "stable twice"),
    ],
)
def test_the_checker_finds_what_is_wrong(wrong: dict[str, object], rule: str) -> None:
    with pytest.raises(AssertionError, match=rule):
        check(seen(**wrong), 0)


def test_an_error_that_no_application_should_get_is_found() -> None:
    whole = seen()
    whole.failures.append("the source got Closed()")
    with pytest.raises(AssertionError, match="the source got"):
        check(whole, 0)

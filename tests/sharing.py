"""How the processes of `make test` share the tests: what stays together, and what may be split.

Tests that run real processes are few shares, so that few of them compete for the cores; those of
the pipeline are one, so that Spark starts once. Files of long computations are split; any other
file stays in one piece.

`xdist_group` is not for this: with pytest 9.2, pytest-xdist 3.8 silently takes no notice of it.
"""

from __future__ import annotations

_TOGETHER = (
    "tests/console/",
    "tests/end_to_end/",
    "tests/pipeline/",
)
_SPLIT = ("tests/brute_force/", "tests/model/", "tests/world/")


def share(test: str) -> str:
    """The name of what this test stays together with; its own, if with nothing."""
    for folder in _TOGETHER:
        if test.startswith(folder):
            return folder
    if test.startswith(_SPLIT):
        return test
    return test.partition("::")[0]

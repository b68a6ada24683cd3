"""The paths of a projection, as a tree of their steps."""

from __future__ import annotations

from typing import Any, Final

Branch = dict[str | int, "Branch | None"]
"""The next steps of paths; None: a path ends there, at all that is behind the step."""

WHOLE: Final = None
"""The end of a path."""


def by_name(branches: list[Branch]) -> list[Branch]:
    """Return the branches that lead on by a name: a name of an array is that of each object."""
    return [branch for branch in branches if any(type(step) is str for step in branch)]


def behind(branches: list[Branch], step: str | int) -> list[Any]:
    """Return what lies behind a step: further branches, or WHOLE."""
    return [branch[step] for branch in branches if step in branch]

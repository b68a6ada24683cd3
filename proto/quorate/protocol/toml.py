"""TOML: the values of a text, or one kind of error for every text that has none.

The keys of a text have their meaning elsewhere, and no file is read here.
"""

from __future__ import annotations

import tomllib
from typing import Any


def values_of(text: str) -> dict[str, Any]:
    """Return the values of a text.

    Raises ValueError, also for a number that is too long, and for values that are nested too deep.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deep") from None

"""quorate.errors has every error of the protocol, and nothing else."""

from __future__ import annotations

import quorate.errors
from quorate.protocol import errors


def test_every_error_is_there() -> None:
    made = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.QuorateError)
    }
    assert set(quorate.errors.__all__) == made | {"Outcome"}
    assert all(getattr(quorate.errors, name) is getattr(errors, name) for name in made)

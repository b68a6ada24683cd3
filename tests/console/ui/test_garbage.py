import gc

import pytest

from quorate.console.ui.garbage import collected_later


def _fail() -> None:
    with collected_later():
        assert not gc.isenabled()
        raise KeyError


def test_collection_is_held_off_and_goes_on_after_an_error() -> None:
    assert gc.isenabled()
    with pytest.raises(KeyError):
        _fail()
    assert gc.isenabled()

"""A client that is refused again and again has one line in the store's log."""

from __future__ import annotations

import logging

from quorate.protocol.errors import Fenced, SourceActive, TopicRefused
from quorate.store.rpc.refusals import Refusals


def test_the_first_refusal_is_news_and_the_next_is_not() -> None:
    refusals = Refusals()
    assert refusals.level("a", SourceActive("x", "s", 900)) == logging.INFO
    assert refusals.level("a", SourceActive("x", "s", 800)) == logging.DEBUG
    assert refusals.level("a", SourceActive("y", "s", 800)) == logging.INFO
    assert refusals.level("a", TopicRefused("x", "s", "")) == logging.INFO
    assert refusals.level("b", SourceActive("x", "s", 800)) == logging.INFO


def test_that_an_epoch_is_too_low_is_never_news() -> None:
    assert Refusals().level("a", Fenced("x", 1, 2)) == logging.DEBUG

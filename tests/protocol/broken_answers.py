"""Servers of Fetch that break the rule, each in its way; for the tests of all who read answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat

from quorate.v1 import messages_pb2 as v1

Breach = Callable[[list[v1.FetchAnswer]], Iterator[v1.FetchResponse]]
"""Makes responses of a sound server's answers; the first is as it should be."""


def _together(*answers: v1.FetchAnswer) -> v1.FetchResponse:
    return v1.FetchResponse(answers=answers)


def stops_without_its_end(answers: list[v1.FetchAnswer]) -> Iterator[v1.FetchResponse]:
    yield _together(answers[0])


def says_nothing_for_ever(answers: list[v1.FetchAnswer]) -> Iterator[v1.FetchResponse]:
    yield _together(answers[0])
    yield from repeat(_together())


def says_what_nobody_knows_for_ever(answers: list[v1.FetchAnswer]) -> Iterator[v1.FetchResponse]:
    yield _together(answers[0])
    yield from repeat(_together(v1.FetchAnswer()))


def says_the_same_for_ever(answers: list[v1.FetchAnswer]) -> Iterator[v1.FetchResponse]:
    yield from repeat(_together(answers[0]))


def leaves_something_out(answers: list[v1.FetchAnswer]) -> Iterator[v1.FetchResponse]:
    yield _together(answers[0], *answers[2:])


def ends_twice(answers: list[v1.FetchAnswer]) -> Iterator[v1.FetchResponse]:
    yield _together(answers[0], answers[-1], answers[-1])


def goes_on_after_its_end(answers: list[v1.FetchAnswer]) -> Iterator[v1.FetchResponse]:
    yield _together(answers[0], answers[-1], *answers[1:])


BREACHES: tuple[Breach, ...] = (
    stops_without_its_end,
    says_nothing_for_ever,
    says_what_nobody_knows_for_ever,
    says_the_same_for_ever,
    leaves_something_out,
    ends_twice,
    goes_on_after_its_end,
)


def answers_of(responses: Iterable[v1.FetchResponse]) -> list[v1.FetchAnswer]:
    """What a sound server gives, one by one."""
    return [answer for response in responses for answer in response.answers]


def name_of(breach: Breach) -> str:
    """For people."""
    return getattr(breach, "__name__", "sound")

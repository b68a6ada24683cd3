"""The pipeline's errors explain themselves, reach the driver, and have their exit codes."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from tests.protocol.test_errors import example

from quorate.pipeline import errors
from quorate.pipeline.archive.tasks import cause, failed_from_json, failed_to_json
from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import SourceName

EXIT_CODES = {
    errors.JavaNotFound: 78,
    errors.MessagesGone: 1,
    errors.OffsetsBehind: 1,
    errors.RowsRefused: 1,
    errors.RowsDiffer: 1,
    errors.RowsUnaccounted: 1,
    errors.WriteNotOurs: 1,
    errors.AttemptSuperseded: 75,
    errors.NotArchived: 1,
    errors.TaskFailed: 1,
    errors.FunctionFailed: 1,
    errors.Interrupted: 130,
}
KINDS = sorted(
    (
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, QuorateError) and kind is not QuorateError
    ),
    key=lambda kind: kind.__name__,
)

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@every_kind
def test_the_fields_are_text_or_whole_numbers_and_the_text_names_each(
    kind: type[QuorateError],
) -> None:
    assert fields(kind), "an error without facts says nothing"
    assert {field.type for field in fields(kind)} <= {"str", "int"}
    error = example(kind)
    shown = re.sub(r"(?<=\d),(?=\d)", "", str(error))
    for name, value in error.facts().items():
        assert value in str(error) or value in shown, f"{name} is missing in: {error}"


@every_kind
def test_the_text_ends_with_the_next_step(kind: type[QuorateError]) -> None:
    if kind is errors.Interrupted:
        return  # its field says it
    text = str(example(kind)).splitlines()[0]  # the trace of a function follows after that
    assert len([part for part in re.split(r"(?<=[.?:])\s+", text) if part]) >= 2, text
    assert text.rstrip()[-1] in ".?"


@every_kind
def test_a_task_tells_the_driver_its_error(kind: type[QuorateError]) -> None:
    source, error = SourceName("orders", 0x10), example(kind)
    told_of, again = failed_from_json(failed_to_json(source, error))
    assert told_of == source
    assert type(again) is kind
    assert again.facts() == error.facts()
    assert str(again) == str(error)


@every_kind
def test_the_driver_finds_the_error_that_spark_printed(kind: type[QuorateError]) -> None:
    error = example(kind)
    name = f"{kind.__module__}.{kind.__qualname__}"
    printed = f"Job aborted\nx.PythonException: a trace\n  {name}: {error}\n at java"
    assert cause(printed) == str(error).splitlines()[0]


def test_every_error_has_its_exit_code() -> None:
    assert {kind: example(kind).exit_code for kind in KINDS} == EXIT_CODES


def test_no_error_has_the_name_of_one_of_the_protocol() -> None:
    """Else a store's answer would become an error of the pipeline."""
    from quorate.protocol import errors as of_the_protocol

    assert not {kind.__name__ for kind in KINDS} & vars(of_the_protocol).keys()


def test_the_tree_in_the_docstring_is_complete() -> None:
    named = set(re.findall(r"\b[A-Z][A-Za-z]+\b", errors.__doc__ or ""))
    assert {kind.__name__ for kind in KINDS} <= named

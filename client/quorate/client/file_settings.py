"""The settings in a TOML file: the one that the command reads, too.

Reading the file is the only I/O here. The keys are read in quorate.protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quorate.protocol.choices import did_you_mean
from quorate.protocol.errors import ConfigurationInvalid
from quorate.protocol.layout import Layout
from quorate.protocol.layout_text import LAYOUT_KEYS, read_layout_keys, read_previous
from quorate.protocol.option_text import FileOptions, read_section
from quorate.protocol.tls import Tls, read_tls
from quorate.protocol.toml import values_of
from quorate.receiver.options import ReceiverOptions
from quorate.source.options import SourceOptions

_OF_THE_COMMAND = ("output", "timeout")
_KEYS = (*LAYOUT_KEYS, "previous", "tls", "source", "receiver", *_OF_THE_COMMAND)


@dataclass(frozen=True, slots=True)
class OptionSections:
    """The options of a file, for the sources and receivers of a client."""

    source: FileOptions[SourceOptions] = field(default_factory=lambda: FileOptions(SourceOptions))
    receiver: FileOptions[ReceiverOptions] = field(
        default_factory=lambda: FileOptions(ReceiverOptions)
    )


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The settings of a file."""

    layout: Layout
    previous: tuple[Layout, ...]
    tls: Tls | None
    options: OptionSections


def read_file(path: Path) -> FileSettings:
    """Return the settings of a file. Raises ConfigurationInvalid with every problem."""
    try:
        values = values_of(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationInvalid(str(path), f"  {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationInvalid(str(path), f"  {error}") from None
    problems = [f"{key}: unknown{did_you_mean(key, _KEYS)}" for key in values if key not in _KEYS]
    layout, wrong = read_layout_keys(values)
    if layout is None and not wrong:
        wrong = ["stores: must be given, or [[groups]]"]
    problems += wrong
    previous, wrong = read_previous(values.get("previous", []))
    problems += wrong
    tls = read_tls(values["tls"], problems) if "tls" in values else None
    options = _read_sections(values, problems)
    if layout is None or problems:
        raise ConfigurationInvalid(str(path), "\n".join(f"  {each}" for each in problems))
    return FileSettings(layout, previous, tls, options)


def _read_sections(values: Mapping[str, Any], problems: list[str]) -> OptionSections:
    return OptionSections(
        read_section(SourceOptions, values.get("source", {}), "source", problems),
        read_section(ReceiverOptions, values.get("receiver", {}), "receiver", problems),
    )

"""The settings of a command: from flags, then QUORATE_* variables, then a TOML file.

Unknown variables and keys are errors: a setting that is silently not used is worse than none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from quorate.console.ui.exits import OUTPUT_KEY, TLS_KEY
from quorate.console.ui.output import Output
from quorate.protocol.choices import RemembersGiven, did_you_mean
from quorate.protocol.errors import ConfigurationInvalid, InvalidArgument, QuorateError
from quorate.protocol.identity import StoreAddress
from quorate.protocol.layout import Layout
from quorate.protocol.layout_text import (
    parse_group,
    read_layout_keys,
    read_previous,
    read_stores,
)
from quorate.protocol.tls import (
    TLS_VARIABLES,
    Tls,
    environment_of,
    read_tls,
    table_of_environment,
)
from quorate.protocol.toml import values_of

if TYPE_CHECKING:
    from quorate.protocol.option_text import FileOptions

Options = TypeVar("Options", bound=RemembersGiven)

PREFIX = "QUORATE_"
CONFIG_VARIABLE = "QUORATE_CONFIG"
TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings that data commands share."""

    layout: Layout
    output: Output
    timeout: float
    """Seconds to wait for stores."""
    previous: tuple[Layout, ...] = ()
    """The layouts of earlier configurations."""
    tls: Tls | None = None
    """The TLS files; None: connections are not secure."""
    file: str = ""
    """The path of the file, if it has sections of options."""
    sections: Mapping[str, Any] = field(default_factory=dict)
    """These sections, [source] and [receiver], as they stand there."""

    def options(self, section: str, kind: type[Options]) -> FileOptions[Options]:
        """Return the options of a section. Raises ConfigurationInvalid with every problem."""
        problems: list[str] = []
        # Imported here, because it brings RE2, and the help of a command must be instant.
        from quorate.protocol.option_text import read_section

        options = read_section(kind, self.sections.get(section, {}), section, problems)
        if problems:
            raise ConfigurationInvalid(self.file, "\n".join(f"  {each}" for each in problems))
        return options

    @property
    def stores(self) -> tuple[StoreAddress, ...]:
        """All stores, backups too."""
        return self.layout.stores


def _output(value: Any) -> Output:
    try:
        return Output(value)
    except ValueError:
        raise InvalidArgument("output", f"{value!r} is none of {', '.join(Output)}") from None


def _timeout(value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = 0.0
    if not seconds > 0:
        raise InvalidArgument("timeout", f"{value!r} is not a number of seconds above 0")
    return seconds


_READERS: dict[str, Callable[[Any], Any]] = {
    "stores": read_stores,
    "output": _output,
    "timeout": _timeout,
}
_FILE_ONLY = ("groups", "intergroup", "also", "previous", "tls", "source", "receiver")
"""The keys whose values are too large for a variable."""


def resolve(
    meta: dict[str, Any],
    *,
    stores: str | None = None,
    groups: Sequence[str] = (),
    intergroup: str | None = None,
    also: str | None = None,
    output: Output | None = None,
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> GroupSettings:
    """Return the settings of this call.

    meta: the typer context's, where the output format is left for errors, and where the TLS flags
    are. The TLS settings that were chosen go into the environment. So the channels of the command,
    its jobs and its child processes have the same ones.
    Raises InvalidArgument for a flag, ConfigurationInvalid for a variable or the file.
    """
    environment = os.environ if environment is None else environment
    flags = {"stores": stores, "output": output, "timeout": timeout}
    chosen = _chosen(meta, flags, groups, intergroup, environment)
    if "layout" not in chosen:
        raise InvalidArgument(
            "stores",
            "none given; name them with --stores a=host:port,…, in QUORATE_STORES, or as stores = "
            f"[…] in {_file(environment)}. `quorate dev` starts three on this machine",
        )
    tls = chosen.get("tls")
    if tls is not None:
        # Imported here, because it brings gRPC, and the help of a command must be instant.
        from quorate.transport.credentials import check_files

        check_files(tls)
        os.environ.update(environment_of(tls))
    layout: Layout = chosen["layout"]
    return GroupSettings(
        layout if also is None else _with_replicas(layout, also),
        meta[OUTPUT_KEY],
        chosen.get("timeout", TIMEOUT_SECONDS),
        chosen.get("previous", ()),
        chosen.get("tls"),
        chosen.get("file", ""),
        chosen.get("sections", {}),
    )


def resolve_output(meta: dict[str, Any], output: Output | None) -> Output:
    """Return the output format of a call that needs no stores. Raises as `resolve` does."""
    _chosen(meta, {"output": output}, (), None, os.environ)
    form: Output = meta[OUTPUT_KEY]
    return form


def _chosen(
    meta: dict[str, Any],
    flags: Mapping[str, Any],
    groups: Sequence[str],
    intergroup: str | None,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """Return the values of flags, variables and the file, in this order of precedence."""
    if flags["output"] is not None:
        meta[OUTPUT_KEY] = flags["output"]
    chosen = {key: _from_flag(key, value) for key, value in flags.items() if value is not None}
    chosen |= _from_flags(chosen.pop("stores", None), groups, intergroup)
    if (table := meta.get(TLS_KEY)) is not None:
        chosen["tls"] = Tls(**table)
    for layer in (_from_environment(environment), _from_file(environment)):
        chosen = {**layer, **chosen}
        if meta.get(OUTPUT_KEY) is None:
            meta[OUTPUT_KEY] = layer.get("output")
    meta[OUTPUT_KEY] = chosen.get("output", Output.TABLE)
    return chosen


def _from_flag(key: str, value: Any) -> Any:
    try:
        return _READERS[key](value)
    except InvalidArgument as error:
        raise InvalidArgument(f"--{key}", error.detail) from None


def _from_flags(
    stores: tuple[StoreAddress, ...] | None,
    groups: Sequence[str],
    intergroup: str | None,
) -> dict[str, Any]:
    if stores is not None and groups:
        raise InvalidArgument("--stores", "cannot go with --group; name the stores in a group")
    if stores is not None:
        return {"layout": Layout.plain(stores)}
    if groups:
        return {"layout": Layout.of(*map(parse_group, groups), rule=intergroup or "any")}
    if intergroup is not None:
        raise InvalidArgument("--intergroup", "needs --group")
    return {}


def _with_replicas(layout: Layout, also: str) -> Layout:
    """Return a layout with these replicas, in place of those that it has."""
    members = tuple(store for store in layout.stores if store not in layout.also)
    try:
        return replace(layout, stores=(*members, *read_stores(also)))
    except InvalidArgument as error:
        raise InvalidArgument("--also", error.detail) from None


def check_variables(environment: Mapping[str, str]) -> None:
    """Raise ConfigurationInvalid for a QUORATE_* variable that no command knows."""
    known = (CONFIG_VARIABLE, *(PREFIX + key.upper() for key in _READERS), *TLS_VARIABLES)
    problems = [
        f"  {name}: unknown{did_you_mean(name, known)}"
        for name in environment
        if name.startswith(PREFIX) and name not in known
    ]
    if problems:
        raise ConfigurationInvalid("of the environment", "\n".join(problems))


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    given: dict[str, Any] = {
        name: value
        for name, value in environment.items()
        if name.startswith(PREFIX) and name != CONFIG_VARIABLE and name not in TLS_VARIABLES
    }
    known = {PREFIX + key.upper(): key for key in (*_READERS, "tls")}
    if table := table_of_environment(environment):
        given[PREFIX + "TLS"] = table
    return _read(given, known, "of the environment", (*known, CONFIG_VARIABLE))


def _file(environment: Mapping[str, str]) -> Path:
    if named := environment.get(CONFIG_VARIABLE):
        return Path(named)
    base = environment.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "quorate" / "config.toml"


def _from_file(environment: Mapping[str, str]) -> dict[str, Any]:
    path = _file(environment)
    try:
        content = values_of(path.read_text())
    except FileNotFoundError:
        if CONFIG_VARIABLE in environment:
            raise ConfigurationInvalid(
                str(path), f"  the file does not exist; {CONFIG_VARIABLE} names it"
            ) from None
        return {}
    except (OSError, ValueError) as error:
        raise ConfigurationInvalid(str(path), f"  {error}") from error
    names = (*_READERS, *_FILE_ONLY)
    return _read(content, {key: key for key in names}, str(path), names)


def _read(
    given: Mapping[str, Any], known: Mapping[str, str], where: str, names: tuple[str, ...]
) -> dict[str, Any]:
    """Return the known values. Raises ConfigurationInvalid with all problems at once."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, value in given.items():
        if name not in known:
            problems.append(f"  {name}: unknown{did_you_mean(name, names)}")
        elif known[name] in ("output", "timeout"):
            try:
                values[known[name]] = _READERS[known[name]](value)
            except QuorateError as error:
                problems.append(f"  {name}: {error}")
    placed = {known[name]: value for name, value in given.items() if name in known}
    layout, wrong = read_layout_keys(placed)
    if "previous" in placed:
        values["previous"], wrong_before = read_previous(placed["previous"])
        wrong = [*wrong, *wrong_before]
    problems += [f"  {problem}" for problem in wrong]
    if "tls" in placed:
        values["tls"] = read_tls(placed["tls"], wrong := [])
        problems += [f"  {problem}" for problem in wrong]
    if layout is not None:
        values["layout"] = layout
    if sections := {key: placed[key] for key in ("source", "receiver") if key in placed}:
        values |= {"sections": sections, "file": where}
    if problems:
        raise ConfigurationInvalid(where, "\n".join(problems))
    return values

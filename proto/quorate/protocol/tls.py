"""The TLS settings of one end: which files hold its certificate, its key and the authorities.

Here are only the paths. quorate.transport.credentials reads the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from quorate.protocol.choices import did_you_mean
from quorate.protocol.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Tls:
    """The files with which an end proves who it is, and checks who the other end is.

    All files are PEM, but for the token. They may be replaced at any time: new connections use the
    new ones.
    """

    ca: str
    """The path of the certificates of the authorities that the other end's certificate must come
    from."""
    certificate: str = ""
    """The path of this end's certificate, with those between it and its authority; empty: none.
    A source needs one, because its receivers connect to it."""
    key: str = ""
    """The path of the private key of the certificate."""
    token: str = ""
    """The path of the bearer token that this end shows with each call; empty: it shows none."""
    receivers: str = ""
    """The identities of the receivers that the sources of this end serve, with commas between
    them. Empty: all that have a certificate of the authorities."""

    def __post_init__(self) -> None:
        """Take paths of any kind. Raises InvalidArgument."""
        for each in fields(self):
            value = getattr(self, each.name)
            text = value.__fspath__() if hasattr(value, "__fspath__") else value
            if not isinstance(text, str):
                raise InvalidArgument(f"tls.{each.name}", f"{value!r} is neither a path nor a text")
            object.__setattr__(self, each.name, text)
        if not self.ca:
            raise InvalidArgument("tls.ca", "must be given")
        if bool(self.certificate) != bool(self.key):
            missing = "key" if self.certificate else "certificate"
            raise InvalidArgument(f"tls.{missing}", "must be given: the two go together")

    @property
    def may_receive(self) -> frozenset[str]:
        """The identities of the receivers that the sources of this end serve; empty: all."""
        return frozenset(name.strip() for name in self.receivers.split(",") if name.strip())


TLS_KEYS = tuple(each.name for each in fields(Tls))

TLS_VARIABLES = {f"QUORATE_TLS_{key.upper()}": key for key in TLS_KEYS}
"""The names of the environment variables, and the setting of each."""


def tls_of_environment(environment: Mapping[str, str]) -> Tls | None:
    """Return the settings of a process; None: it has none. Raises InvalidArgument."""
    table = table_of_environment(environment)
    return Tls(**{"ca": "", **table}) if table else None


def table_of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the variables give, by key."""
    return {key: environment[name] for name, key in TLS_VARIABLES.items() if environment.get(name)}


def environment_of(tls: Tls | None) -> dict[str, str]:
    """Return the variables that give these settings, for this process and its children.

    tls: None: the variables are empty, so that those of the parent do not count.
    """
    return {name: getattr(tls, key, "") for name, key in TLS_VARIABLES.items()}


def read_tls(table: Any, problems: list[str]) -> Tls | None:
    """Return the settings of a `[tls]` table; None if there are problems, which are added."""
    if not isinstance(table, Mapping):
        problems.append("tls: must be a table, such as [tls] with ca = …")
        return None
    unknown = [key for key in table if key not in TLS_KEYS]
    problems += [f"tls.{key}: unknown{did_you_mean(key, TLS_KEYS)}" for key in unknown]
    try:
        return Tls(**{"ca": "", **{key: table[key] for key in table if key not in unknown}})
    except InvalidArgument as error:
        problems.append(f"{error.argument}: {error.detail}")
        return None

"""Errors of starting: a configuration that is not valid, a store that was never founded."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import QuorateError
from quorate.protocol.exit_codes import CONFIGURATION, UNREACHABLE


@dataclass(eq=False)
class ConfigurationInvalid(QuorateError):
    """A configuration with one problem or several."""

    path: str
    problems: str
    """One problem a line, each with the path of its key."""
    exit_code = CONFIGURATION

    def describe(self) -> str:
        return f"The configuration {self.path} is not valid:\n{self.problems}"


@dataclass(eq=False)
class NotFounded(QuorateError):
    """A store with a blank data directory that does not know whether its group is new."""

    store: str
    exit_code = CONFIGURATION

    def describe(self) -> str:
        return (
            f"The data directory of store {self.store} is blank. The store cannot tell whether "
            "its group is new, or has messages already. Name the other stores as its peers "
            "(`peers` in the configuration, or --peer). If the group never had any data, run "
            "`quorate store init --new` first instead."
        )


@dataclass(eq=False)
class StoreNotReady(QuorateError):
    """A store that this program started itself, and that did not come up."""

    store: str
    detail: str
    log: str
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"Store {self.store}, which was started here, is not ready: {self.detail}. Look at its "
            f"log ({self.log}), and start it again."
        )

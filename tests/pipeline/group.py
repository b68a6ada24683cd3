"""Three real stores as processes, and messages on them, for tests without asyncio."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.store.support import free_addresses

from quorate.pipeline.stores.client import Stores
from quorate.protocol.identity import SourceName
from quorate.source import SourceOptions
from quorate.source.blocking import Source

SESSION = 0x10
PATIENCE_SECONDS = 40.0
_POLL_SECONDS = 0.05


def until(what: str, happened: Callable[[], bool], patience: float = PATIENCE_SECONDS) -> None:
    """Return once it has happened; fails if it does not in so many seconds."""
    give_up_at = time.monotonic() + patience
    while not happened():
        assert time.monotonic() < give_up_at, f"in vain: {what}"
        time.sleep(_POLL_SECONDS)


class Group:
    """Stores by number, each started, killed, paused and wiped on its own."""

    def __init__(self, directory: Path, count: int = 3, configuration: str = "") -> None:
        """configuration: further settings of every store, as TOML."""
        self.directory = directory
        self._configuration = directory / "stores.toml"
        self._configuration.write_text(configuration)
        self.options: dict[int, tuple[str, ...]] = {}
        """Of the command that starts a store, by its number, besides those of all."""
        self.addresses = free_addresses(count)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def stores(self) -> str:
        """As the option `stores` and Source.open take them."""
        return ",".join(self.addresses)

    def start(self, *numbers: int) -> None:
        """Start these, or all; return when they serve and vouch for what they lack."""
        self.launch(*numbers)
        until("all vouch", self._all_vouch)

    def launch(self, *numbers: int) -> None:
        """Start these, or all; return when they serve."""
        wanted = numbers or range(len(self.addresses))
        for number in wanted:
            self._processes[number] = self._started(number)
        for number in wanted:
            stdout = self._processes[number].stdout
            assert stdout is not None
            ready = stdout.readline()
            assert ready, f"store {number} did not start: {self.log(number)}"
            assert json.loads(ready)["address"] == self.addresses[number]

    def _all_vouch(self) -> bool:
        catalogue = Stores([self.addresses[number] for number in self._processes]).sources()
        return not catalogue.limbo and not catalogue.silent

    def _started(self, number: int) -> subprocess.Popen[bytes]:
        address = self.addresses[number]
        with self._log(number).open("ab") as log:
            return subprocess.Popen(
                [
                    *(sys.executable, "-m", "quorate.console.main", "store", "run"),
                    *("--name", f"s{number}", "--listen", address, "-o", "json"),
                    *("--data-directory", str(self.directory / f"s{number}")),
                    *("--config", str(self._configuration)),
                    *self.options.get(number, ()),
                    *("--stop-with-parent", *(self._peers(address) or ["--no-peers"])),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def _peers(self, address: str) -> list[str]:
        """How a store is told of the others."""
        return [f"--peer={other}" for other in self.addresses if other != address]

    def _log(self, number: int) -> Path:
        return self.directory / f"s{number}.log"

    def log(self, number: int) -> str:
        return self._log(number).read_text()

    def kill(self, *numbers: int) -> None:
        """kill -9."""
        for number in numbers:
            self._processes[number].kill()
            self._ended(number)

    def stop(self) -> None:
        """End all that run, cleanly."""
        for process in self._processes.values():
            process.terminate()
        for number in list(self._processes):
            self._ended(number)

    def _ended(self, number: int) -> None:
        # Closes its pipes, too.
        self._processes.pop(number).communicate(timeout=PATIENCE_SECONDS)

    def pause(self, number: int) -> None:
        self._processes[number].send_signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        self._processes[number].send_signal(signal.SIGCONT)

    def wipe(self, number: int) -> None:
        """Remove what a store has, which must not run."""
        assert number not in self._processes
        shutil.rmtree(self.directory / f"s{number}")

    def open(self, topic: str, session_id: int = SESSION, **settings: object) -> Source:
        """A source on these stores."""
        options = SourceOptions(registration_interval=0.3)
        return Source.open(
            topic,
            **{"stores": self.stores, "session_id": session_id, "options": options} | settings,  # type: ignore[arg-type]
        )

    def publish(
        self, topic: str, payloads: Iterable[bytes], session_id: int = SESSION
    ) -> SourceName:
        """Have these stable, and known to be by every store that runs; returns their source."""
        with self.open(topic, session_id) as source:
            source.send_many(list(payloads))
            source.flush()
            last = source.next_sequence - 1
            name = source.name
        self.until_stable(name, last)
        return name

    def until_stable(self, name: SourceName, last: int) -> None:
        """Return when each store that runs was told that everything up to there is stable."""
        for number in self._processes:
            stores = Stores([self.addresses[number]])
            until(
                f"{name} is stable up to {last} at store {number}",
                lambda stores=stores: (  # type: ignore[misc]
                    (known := stores.sources().sources.get(name)) is not None
                    and known.stable_upto >= last
                ),
            )


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]

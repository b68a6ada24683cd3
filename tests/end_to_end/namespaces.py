"""A network of its own for each process: namespaces on a bridge in a further namespace.

Nothing of this is seen in the host's own network: both ends of every cable are made inside.

A process is cut off by giving those that send to it a neighbour that does not exist: packets
vanish without a word, one way, between any two, and no module of the kernel is needed for it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from tests.end_to_end.network import Place

_PREFIX = "quorate-test-"
_HUB = "hub"
_PORT = 7301
_NOBODY = "02:00:00:00:ff:ff"


class Namespaces:
    """Places in namespaces that are gone when this is left, with whatever runs in them."""

    def __init__(self) -> None:
        self._hosts: dict[str, int] = {}
        self._last = 0
        """The number of the last address that was given away."""

    async def __aenter__(self) -> Self:
        remove_abandoned()
        try:
            _run("ip", "netns", "add", self._namespace(_HUB))
            self._ip(_HUB, "link add name bridge0 type bridge", "link set bridge0 up")
        except BaseException:
            self._remove()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._remove()

    async def place(self, name: str) -> Place:
        if name not in self._hosts:
            self._add(name)
        address = f"{_address(self._hosts[name])}:{_PORT}"
        return Place(address, address, ("ip", "netns", "exec", self._namespace(name)))

    def _add(self, name: str) -> None:
        host = self._last = self._last + 1
        _run("ip", "netns", "add", self._namespace(name))
        self._ip(
            _HUB,
            f"link add name port{host} type veth peer name eth0 netns {self._namespace(name)}",
            f"link set port{host} master bridge0 up",
        )
        self._ip(
            name,
            f"link set eth0 address {_hardware(host)} up",
            "link set lo up",
            f"addr add {_address(host)}/24 dev eth0",
        )
        self._hosts[name] = host
        for other in self._hosts:
            if other != name:
                self.join(name, other)
                self.join(other, name)

    def move(self, name: str) -> None:
        """Give a place another address; nobody has the one from before any more."""
        before, after = self._hosts[name], self._last + 1
        self._hosts[name] = self._last = after
        self._ip(
            name,
            f"addr del {_address(before)}/24 dev eth0",
            f"link set eth0 address {_hardware(after)}",
            f"addr add {_address(after)}/24 dev eth0",
        )
        for other in self._hosts:
            if other != name:
                self.join(name, other)
                self.join(other, name)

    # Ways.

    def sever(self, sender: str, receiver: str) -> None:
        """What one sends to the other vanishes."""
        self._neighbour(sender, receiver, _NOBODY)

    def join(self, sender: str, receiver: str) -> None:
        """What one sends to the other arrives."""
        self._neighbour(sender, receiver, _hardware(self._hosts[receiver]))

    def part(self, some: Iterable[str], others: Iterable[str]) -> None:
        """A partition: nothing passes between these and those."""
        for one in some:
            for other in others:
                self.sever(one, other)
                self.sever(other, one)

    def unite(self) -> None:
        """Everyone reaches everyone."""
        for one in self._hosts:
            for other in self._hosts:
                if one != other:
                    self.join(one, other)

    def stall(self, name: str, *ways: str) -> None:
        self._each(name, ways, self.sever)

    def heal(self, name: str, *ways: str) -> None:
        self._each(name, ways or ("there", "back"), self.join)

    def _each(self, name: str, ways: Iterable[str], act: object) -> None:
        assert callable(act)
        for other in self._hosts:
            if other != name:
                for way in ways:
                    act(*((other, name) if way == "there" else (name, other)))

    def cut(self, name: str) -> None:
        """Connections outlive a cable: there is nothing to break."""

    def _neighbour(self, sender: str, receiver: str, hardware: str) -> None:
        address = _address(self._hosts[receiver])
        self._ip(sender, f"neigh replace {address} lladdr {hardware} dev eth0 nud permanent")

    # Namespaces.

    def _namespace(self, name: str) -> str:
        return f"{_PREFIX}{os.getpid()}-{name}"

    def _ip(self, name: str, *commands: str) -> None:
        _run("ip", "-n", self._namespace(name), "-batch", "-", lines="\n".join(commands))

    def _remove(self) -> None:
        _remove(name for name in _all() if name.startswith(self._namespace("")))


def why_not() -> str:
    """Why this machine can not have such networks; empty: it can."""
    if shutil.which("ip") is None:
        return "there is no `ip` command"
    if os.geteuid() != 0:
        return "only root may make them, of a user namespace at least; see docs/testing.md"
    name = f"{_PREFIX}{os.getpid()}-probe"
    try:
        _run("ip", "netns", "add", name)
        _run("ip", "-n", name, "link", "add", "name", "one", "type", "bridge")
        _run(
            "ip", "-n", name, "link", "add", "name", "two", "type", "veth", "peer", "name", "three"
        )
    except NetworkError as error:
        return f"network namespaces can not be made here: {error}"
    finally:
        _remove(each for each in _all() if each == name)
    return ""


def remove_abandoned() -> None:
    """What earlier runs left behind that were killed."""
    _remove(name for name in _all() if not _is_alive(name.removeprefix(_PREFIX).split("-")[0]))


class NamedPlaces(Namespaces):
    """Places that are known by their names, which lead to other addresses after a move."""

    def __init__(self, file: Path) -> None:
        """file: of the names; each process sees it as /etc/hosts."""
        super().__init__()
        self._file = file
        self._unknown: set[str] = set()

    async def place(self, name: str) -> Place:
        place = await super().place(name)
        self._write()
        address = f"{name}:{_PORT}"
        mounted = ("sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(self._file))
        return Place(address, address, (*place.command, *mounted))

    def forget(self, name: str) -> None:
        """Let the name lead nowhere, until the place has moved."""
        self._unknown.add(name)
        self._write()

    def move(self, name: str) -> None:
        super().move(name)
        self._unknown.discard(name)
        self._write()

    def _write(self) -> None:
        known = (name for name in self._hosts if name not in self._unknown)
        lines = [f"{_address(self._hosts[name])} {name}" for name in known]
        content = "".join(f"{line}\n" for line in ["127.0.0.1 localhost", *lines]).encode()
        # In place: it is the file itself that is mounted, not its name. By one write that truncates
        # nothing: a process that looks a name up meanwhile would find no name at all.
        self._file.touch()
        with self._file.open("r+b", buffering=0) as file:
            file.write(content.ljust(self._file.stat().st_size, b"\n"))


class NetworkError(Exception):
    """A command of the network's setup failed."""


def _all() -> list[str]:
    listed = _run("ip", "netns", "list").splitlines()
    return [name for line in listed if (name := line.split()[0]).startswith(_PREFIX)]


def _is_alive(pid: str) -> bool:
    return os.path.exists(f"/proc/{pid}")


def _remove(names: Iterable[str]) -> None:
    for name in names:
        with contextlib.suppress(NetworkError):
            for pid in _run("ip", "netns", "pids", name).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(NetworkError):
            _run("ip", "netns", "del", name)


def _address(host: int) -> str:
    return f"10.77.0.{host}"


def _hardware(host: int) -> str:
    return f"02:00:00:00:00:{host:02x}"


def _run(*command: str, lines: str = "") -> str:
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout

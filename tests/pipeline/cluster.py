"""A standalone cluster of Spark on loopback, whose executors can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Self

from tests.pipeline.group import PATIENCE_SECONDS, until
from tests.store.support import free_addresses

from quorate.pipeline.spark.java import find_java

_MEMORY = "512m"


class Cluster:
    """One master, and workers of one core each. Ended by `with`."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        """directory: where each process logs and works."""
        self._directory = directory
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        (self._address,) = free_addresses(1)

    @property
    def master(self) -> str:
        """The master's URL, as Spark's setting `spark.master` has it."""
        return f"spark://{self._address}"

    def __enter__(self) -> Self:
        port = self._address.rpartition(":")[2]
        self._start("master", "master.Master", "--port", port, "--webui-port", "0")
        until("the master runs", lambda: "I have been elected leader" in self._log("master"))
        for number in range(self._workers):
            self._start(
                f"worker{number}",
                "worker.Worker",
                *("--cores", "1", "--memory", "1g", "--webui-port", "0"),
                *("--work-dir", str(self._directory / f"work{number}"), self.master),
            )
        for number in range(self._workers):
            name = f"worker{number}"
            until(name, lambda name=name: "Successfully registered" in self._log(name))  # type: ignore[misc]
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.executors():
            _kill(pid)
        for process in reversed(self._processes):
            process.kill()
            process.wait(PATIENCE_SECONDS)

    def executors(self) -> list[int]:
        """The processes that run tasks, as far as workers have started them."""
        workers = {process.pid for process in self._processes[1:]}
        return [pid for pid in _processes() if _parent(pid) in workers]

    def kill_executor(self) -> None:
        """Kill -9 one that runs. The master has another one started."""
        until("an executor runs", lambda: bool(self.executors()))
        _kill(self.executors()[0])

    def _start(self, name: str, main: str, *arguments: str) -> None:
        import pyspark

        java = find_java(None, os.environ) / "bin" / "java"
        jars = Path(pyspark.__file__).parent / "jars" / "*"
        command = [str(java), f"-Xmx{_MEMORY}", "-XX:TieredStopAtLevel=1", "-cp", str(jars)]
        command += [f"org.apache.spark.deploy.{main}", "--host", "127.0.0.1", *arguments]
        # As Spark's own scripts say it; executors are not started without.
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": "2.13"}
        with self._path(name).open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        self._processes.append(process)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _log(self, name: str) -> str:
        return self._path(name).read_text()


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _parent(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0  # it has ended
    return int(status.rpartition(")")[2].split()[1])


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return

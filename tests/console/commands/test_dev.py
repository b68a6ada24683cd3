"""`quorate dev` and `quorate store run`, as processes."""

import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests import forks
from tests.console.command import QUORATE

pytestmark = pytest.mark.processes


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [*QUORATE, "dev", "--stores", "2", "--base-port", "0"]
    with forks.none():
        process = subprocess.Popen(
            [*command, "--data-directory", str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    with process:
        yield process
        if process.poll() is None:
            process.kill()


def test_dev_with_a_page_says_where_it_is() -> None:
    command = [*QUORATE, "dev", "--stores", "1", "--base-port", "0", "--page"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as dev:
        line(dev)
        assert dev.stderr is not None
        said = iter(dev.stderr.readline, "")
        url = next(each for each in said if "live page" in each).split()[-1]
        with urllib.request.urlopen(url, timeout=20) as page:
            assert b"<title>Quorate</title>" in page.read()
        dev.send_signal(signal.SIGINT)
        dev.communicate(timeout=30)
        assert dev.returncode == 0


def test_dev_keeps_the_last_message_of_each_key_of_a_topic() -> None:
    command = [*QUORATE, "dev", "--stores", "1", "--base-port", "0", "--keys", "orders.eu"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as dev:
        stores = ["--stores", line(dev).partition("=")[2]]
        for payload in ("new", "paid"):
            send = [*QUORATE, "send", "orders.eu", "--key", "A-17", *stores]
            subprocess.run(send, input=payload, text=True, timeout=60, check=True)
        get = [*QUORATE, "state", "get", "orders.eu", "A-17", *stores, "-o", "json"]
        row = subprocess.run(get, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        assert json.loads(row.stdout)[0]["payload"] == "paid"
        count = [*QUORATE, "state", "count", "orders-eu", *stores]
        refused = subprocess.run(count, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        assert "keeps no state of orders-eu" in refused.stderr
        dev.send_signal(signal.SIGINT)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def stores_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children()


def gone(children: list[psutil.Process]) -> bool:
    return psutil.wait_procs(children, timeout=20)[1] == []


def test_dev_prints_what_to_export_and_stops_all_on_ctrl_c(dev: subprocess.Popen[str]) -> None:
    export = line(dev)
    assert export.startswith("export QUORATE_STORES=a=127.0.0.1:")
    children = stores_of(dev)
    assert len(children) == 2
    status = subprocess.run(
        [*QUORATE, "status", "--stores", export.partition("=")[2], "-o", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(status.stdout)
    assert answer["healthy"] is True
    assert [row["store"] for row in answer["stores"]] == ["a", "b"]

    dev.send_signal(signal.SIGINT)
    _, said = dev.communicate(timeout=30)
    assert dev.returncode == 0, said
    assert gone(children)
    assert "Ctrl-C stops all stores; their data stays in " in said
    assert "Store a stopped.\n" in said
    assert "Store b stopped.\n" in said


def test_dev_notices_a_dead_child_and_goes_on(dev: subprocess.Popen[str]) -> None:
    stores = line(dev).partition("=")[2]
    first, second = stores_of(dev)
    first.kill()
    assert dev.stderr is not None
    said = ""
    while "has ended" not in said:
        said = dev.stderr.readline()
    assert said == "Store a has ended (signal 9): its log does not say why.\n"
    command = dev.stderr.readline().partition(": quorate ")[2]
    assert command.startswith("store run --name a --data-directory ")
    assert second.is_running()
    status = subprocess.run(
        [*QUORATE, "status", "--stores", stores, "-o", "json"], capture_output=True, check=False
    )
    assert status.returncode == 10
    second.kill()
    dev.communicate(timeout=30)
    assert dev.returncode == 1


def test_stores_do_not_outlive_a_dev_that_was_killed(dev: subprocess.Popen[str]) -> None:
    line(dev)
    children = stores_of(dev)
    dev.kill()
    assert gone(children)


def test_a_port_that_is_taken_is_said_in_words(dev: subprocess.Popen[str]) -> None:
    port = int(line(dev).partition("=")[2].split(",")[0].rpartition(":")[2])
    second = subprocess.run(
        [*QUORATE, "dev", "--stores", "1", "--base-port", str(port)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert second.returncode == 2
    taken = f"the store cannot listen on 127.0.0.1:{port} (Address already in use)"
    assert second.stderr.startswith(f"error: --base-port: {taken}")
    assert second.stderr.endswith(", or use --base-port 0 for any free ports.\n")
    assert second.stderr.count("\n") == 1


def test_no_store_at_all_is_unreachable_and_said_as_json() -> None:
    status = subprocess.run(
        [*QUORATE, "status", "--stores", "127.0.0.1:1", "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert status.returncode == 69
    assert json.loads(status.stderr)["error"] == "Unreachable"
    assert status.stdout == ""


def test_if_no_store_answers_all_of_them_are_named() -> None:
    status = subprocess.run(
        [*QUORATE, "status", "--stores", "one=127.0.0.1:1,two=127.0.0.1:2", "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert status.returncode == 69
    error = json.loads(status.stderr)
    assert (error["fields"]["answered"], error["fields"]["silent"]) == ("", "one, two")
    assert "None did: one, two" in error["message"]

"""The job for the Spark operator, and its image: they fit the command and the stores."""

from __future__ import annotations

import argparse
import re
import tomllib
from typing import Any

from tests.deploy.rendering import DEPLOY, ROOT
from tools.package import VERSION
from yaml import safe_load

from quorate.pipeline.jobs import command as jobs
from quorate.protocol.tls import TLS_VARIABLES

JOB = safe_load((DEPLOY / "spark" / "audit.yaml").read_text())
SPECIFICATION: dict[str, Any] = JOB["spec"]
CONTAINERFILE = (DEPLOY / "spark" / "Containerfile").read_text()


def test_the_job_takes_the_arguments_and_asks_the_stores_that_there_are() -> None:
    name, *given = SPECIFICATION["arguments"]
    parser = argparse.ArgumentParser()
    next(add for each, add, _ in jobs._JOBS if each == name)(parser)
    parsed = parser.parse_args(given)
    client = tomllib.loads(
        (DEPLOY / "kubernetes" / "overlays" / "three" / "client.toml").read_text()
    )
    assert parsed.stores.split(",") == client["stores"]
    assert parsed.archive == "s3://archives/quorate"


def test_the_job_runs_the_program_and_the_image_of_this_version() -> None:
    assert (JOB["apiVersion"], JOB["kind"]) == ("sparkoperator.k8s.io/v1beta2", "SparkApplication")
    assert SPECIFICATION["image"] == f"quorate-spark:{VERSION}"
    program = SPECIFICATION["mainApplicationFile"].removeprefix("local://")
    assert f" {program} " in CONTAINERFILE
    assert "[spark]" in CONTAINERFILE
    least = re.findall(r'"pyspark>=([\d.]+),<(\d+)"', (ROOT / "pyproject.toml").read_text())
    assert SPECIFICATION["sparkVersion"].startswith(f"{least[0][0]}.")


def test_driver_and_executors_have_the_same_files_and_settings_and_no_secret_in_sight() -> None:
    driver, executor = SPECIFICATION["driver"], SPECIFICATION["executor"]
    assert driver["env"] == executor["env"]
    assert driver["volumeMounts"] == executor["volumeMounts"]
    volumes = {each["name"] for each in SPECIFICATION["volumes"]}
    assert {each["name"] for each in driver["volumeMounts"]} == volumes
    (mounted,) = (each["mountPath"] for each in driver["volumeMounts"])
    for each in driver["env"]:
        if each["name"] in TLS_VARIABLES:
            assert each["value"].startswith(f"{mounted}/")
        elif "KEY" in each["name"]:
            assert set(each) == {"name", "valueFrom"}, each["name"]
    given = {each["name"] for each in driver["env"]}
    assert given >= {"QUORATE_TLS_CA", "QUORATE_TLS_CERTIFICATE", "QUORATE_TLS_KEY"}


def test_the_image_runs_as_another_user_than_root() -> None:
    last = CONTAINERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 185:185$", last, re.M)
    assert 'ENTRYPOINT ["/opt/entrypoint.sh"]' in last

"""The files of deploy/kubernetes as kustomize renders them."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
OVERLAYS = ("three", "tls", "zones")
Resource = dict[str, Any]


def missing(what: str) -> None:
    """Skip the test for the lack of something; where CI runs it fails instead."""
    if os.environ.get("CI"):
        pytest.fail(f"needs {what}")
    pytest.skip(f"needs {what}")


def command(*names: str) -> str:
    """Return the first of these commands that this machine has; skip the test if it has none."""
    # `make kustomize` installs beside Python.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    found = next((place for name in names if (place := shutil.which(name, path=path))), None)
    if found is None:
        missing(f"the command {' or '.join(names)}")
    assert found is not None
    return found


@functools.cache
def render(overlay: str) -> tuple[Resource, ...]:
    """Return the resources of an overlay, as kustomize renders them."""
    tool = command("kustomize", "kubectl")
    verb = "build" if Path(tool).name == "kustomize" else "kustomize"
    done = subprocess.run(
        [tool, verb, DEPLOY / "kubernetes" / "overlays" / overlay],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def of_kind(overlay: str, kind: str) -> list[Resource]:
    """Return the resources of a kind."""
    return [each for each in render(overlay) if each["kind"] == kind]


def the(overlay: str, kind: str) -> Resource:
    """Return the only resource of a kind."""
    (found,) = of_kind(overlay, kind)
    return found


def container_of(stores: Resource) -> Resource:
    """Return the container of a StatefulSet's pods."""
    (container,) = stores["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def pods(overlay: str) -> list[tuple[str, Resource]]:
    """Return the name of each pod, and the container in it, as the kubelet starts it."""
    return [
        (f"{stores['metadata']['name']}-{ordinal}", container_of(stores))
        for stores in of_kind(overlay, "StatefulSet")
        for ordinal in range(stores["spec"]["replicas"])
    ]


def arguments_of(overlay: str, pod: str, container: Resource) -> list[str]:
    """Return the arguments of the container in a pod, with its variables put in."""
    namespace = the(overlay, "Service")["metadata"]["namespace"]
    arguments = [str(each) for each in container["args"]]
    for variable, value in (("POD_NAME", pod), ("POD_NAMESPACE", namespace)):
        assert any(each["name"] == variable for each in container["env"])
        arguments = [each.replace(f"$({variable})", value) for each in arguments]
    assert not any("$(" in each for each in arguments)
    return arguments

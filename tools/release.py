"""`make release`: does what a release needs, as far as the step that publishes.

It checks that the checkout can be released, builds and checks the packages, and writes their
checksums and the notes. Then it prints the commands that publish. It runs none of them.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

from tools.package import IMPORTS, PYTHONS, ROOT, VERSION, Built, Failed, package, run


def notes(changelog: str, version: str) -> str:
    """Return the section of a version in the changelog. Raises Failed if it is not the first."""
    sections = re.split(r"^## ", changelog, flags=re.M)
    first = sections[1] if len(sections) > 1 else ""
    heading, _, text = first.partition("\n")
    if heading.split(" ")[0] != version:
        raise Failed(f"the first section of CHANGELOG.md is {heading!r}, not {version}")
    if not text.strip():
        raise Failed(f"CHANGELOG.md says nothing about {version}")
    return text.strip() + "\n"


def check_checkout(root: Path, version: str) -> str:
    """Return the notes of the version. Raises Failed if this checkout cannot be released."""
    text = notes((root / "CHANGELOG.md").read_text(), version)
    if changes := run("git", "status", "--porcelain", directory=root):
        raise Failed(f"the checkout has changes that are not committed:\n{changes}")
    if run("git", "tag", "--list", f"v{version}", directory=root):
        raise Failed(
            f"v{version} is tagged already. Raise the version in pyproject.toml, and begin a "
            "section in CHANGELOG.md"
        )
    return text


def write_papers(built: Built, text: str) -> None:
    """Write the checksums and the notes beside the packages."""
    directory = built.wheel.parent
    sums = (
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in (built.wheel, built.sdist)
    )
    (directory / "SHA256SUMS").write_text("".join(sums))
    (directory / "NOTES.md").write_text(text)


def main() -> int:
    """Prepare the release; return the exit code."""
    try:
        text = check_checkout(ROOT, VERSION)
        built = package(ROOT / "dist", PYTHONS, tuple(IMPORTS))
        write_papers(built, text)
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(
        f"Quorate {VERSION} is in dist/. These commands publish it:\n"
        f"  git tag --annotate v{VERSION} --file dist/NOTES.md\n"
        f"  git push origin v{VERSION}\n"
        f"  python -m twine upload dist/{built.wheel.name} dist/{built.sdist.name}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

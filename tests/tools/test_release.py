"""The checks that come before a release."""

import subprocess
from pathlib import Path

import pytest
from tools.package import ROOT, VERSION, Built, Failed
from tools.release import check_checkout, notes, write_papers

CHANGELOG = (
    "# Changelog\n\nEach version.\n\n## 0.2.0\n\n* New.\n\n### Stores\n\n* Old.\n\n## 0.1.0\n"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    commit = ("-c", "user.name=a", "-c", "user.email=a@a.example", "commit", "--quiet", "-m", "a")
    for arguments in (("init", "--quiet"), ("add", "."), commit):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    return tmp_path


def test_the_notes_are_the_first_section_of_the_changelog() -> None:
    assert notes(CHANGELOG, "0.2.0") == "* New.\n\n### Stores\n\n* Old.\n"
    with pytest.raises(Failed, match=r"is '0\.2\.0', not 0\.1\.0"):
        notes(CHANGELOG, "0.1.0")
    with pytest.raises(Failed, match="says nothing about"):
        notes("# Changelog\n\n## 0.2.0\n\n## 0.1.0\n", "0.2.0")


def test_this_checkout_has_notes_of_its_version() -> None:
    assert notes((ROOT / "CHANGELOG.md").read_text(), VERSION)


def test_a_clean_checkout_can_be_released(checkout: Path) -> None:
    assert check_checkout(checkout, "0.2.0").startswith("* New.")


def test_changes_that_are_not_committed_are_refused(checkout: Path) -> None:
    (checkout / "more").touch()
    with pytest.raises(Failed, match=r"not committed:\n\?\? more"):
        check_checkout(checkout, "0.2.0")


def test_a_version_is_released_once(checkout: Path) -> None:
    subprocess.run(["git", "tag", "v0.2.0"], cwd=checkout, check=True)
    with pytest.raises(Failed, match=r"v0\.2\.0 is tagged already"):
        check_checkout(checkout, "0.2.0")


def test_sums_and_notes_lie_beside_the_packages(tmp_path: Path) -> None:
    built = Built(tmp_path / "quorate-1.whl", tmp_path / "quorate-1.tar.gz")
    for path in (built.wheel, built.sdist):
        path.write_text(path.name)
    write_papers(built, "* New.\n")
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=True)
    assert (tmp_path / "NOTES.md").read_text() == "* New.\n"

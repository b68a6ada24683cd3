"""An archive on a file system: its newest manifest, the commit of the next, and its garbage.

A manifest becomes visible whole or not at all, and each version only once. If two jobs write one
version, the first wins. So far an archive is a directory that all workers reach under one path.
The content of a manifest is in quorate.archive.manifest.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from quorate.archive.layout import (
    DATA,
    MANIFESTS,
    WRITING,
    content_of,
    key_of,
    manifest_name,
    manifest_version,
)
from quorate.archive.manifest import Manifest, from_json, to_json
from quorate.disk.files import sync_directory, write_synced
from quorate.protocol.errors import ArchiveChanged, ArchiveInvalid, ArchiveUnusable, InvalidArgument
from quorate.protocol.ranges import RangeSet

_KEPT = 10
"""Number of older manifests that are kept for people to read."""
GARBAGE_SECONDS = 24 * 3600.0
"""Age in seconds up to which a file that no manifest names may belong to a running job."""


class ArchiveDirectory:
    """The directory of an archive, which need not exist yet."""

    def __init__(self, path: str) -> None:
        """Raise InvalidArgument if the text is not a path."""
        if not path.strip():
            # An empty path would be the current directory.
            raise InvalidArgument("archive path", "none is given; name a directory")
        if "://" in path and not path.startswith("file://"):
            raise InvalidArgument(
                "archive path", f"{path} is not a directory; so far an archive is on a file system"
            )
        self.path = Path(path.removeprefix("file://")).absolute()

    def __str__(self) -> str:
        return str(self.path)

    def newest(self) -> Manifest:
        """Return the newest manifest; one of version 0 if there is no archive yet.

        Raises ArchiveInvalid, ArchiveNewer, ArchiveUnusable.
        """
        version = self.newest_version()
        return self._read(version) if version else Manifest()

    def newest_version(self) -> int:
        """Return the version of the newest manifest; 0: there is none. Raises ArchiveUnusable."""
        return max(self._versions(), default=0)

    def newest_whole(self) -> tuple[Manifest, list[ArchiveInvalid], int]:
        """Return the newest valid manifest, the errors of all newer ones, and the highest version.

        The manifest has version 0 if none is valid. The errors begin with the newest manifest.
        The highest version counts damaged manifests, too. Raises ArchiveNewer, ArchiveUnusable.
        """
        damaged: list[ArchiveInvalid] = []
        versions = sorted(self._versions(), reverse=True)
        for version in versions:
            try:
                return self._read(version), damaged, versions[0]
            except ArchiveInvalid as error:
                damaged.append(error)
        return Manifest(), damaged, max(versions, default=0)

    def _read(self, version: int) -> Manifest:
        path = self.path / MANIFESTS / manifest_name(version)
        with _storage(path):
            written = path.read_bytes()
        try:
            text = written.decode()
        except UnicodeDecodeError as error:
            raise ArchiveInvalid(str(path), f"it is not text: {error}") from None
        manifest = from_json(text, str(path))
        if manifest.version != version:
            raise ArchiveInvalid(str(path), f"it says that it is version {manifest.version}")
        return manifest

    def _versions(self) -> list[int]:
        directory = self.path / MANIFESTS
        with _storage(directory):
            names = os.listdir(directory) if directory.is_dir() else []
        return [version for name in names if (version := manifest_version(name)) is not None]

    def check_writable(self) -> None:
        """Make the archive's directories. Raise ArchiveUnusable if no file can be written there."""
        for name in (DATA, MANIFESTS):
            directory = self.path / name
            with _storage(directory):
                directory.mkdir(parents=True, exist_ok=True)
                trial = directory / f"{WRITING}{uuid.uuid4().hex}"
                trial.write_bytes(b"?")
                trial.unlink()

    def commit(self, manifest: Manifest) -> None:
        """Make a manifest the newest one.

        Raises ArchiveInvalid if it contradicts itself, ArchiveChanged if another job has written
        its version, and ArchiveUnusable.
        """
        directory = self.path / MANIFESTS
        path = directory / manifest_name(manifest.version)
        if problems := manifest.problems():
            raise ArchiveInvalid(str(path), "; ".join(problems[:5]))
        text = to_json(manifest)
        with _storage(directory):
            directory.mkdir(parents=True, exist_ok=True)
            temporary = directory / f"{WRITING}{uuid.uuid4().hex}"
            try:
                write_synced(temporary, text.encode())
                try:
                    # Unlike a rename, a link fails if another job was faster.
                    os.link(temporary, path)
                except FileExistsError:
                    raise ArchiveChanged(str(self), manifest.version) from None
            finally:
                temporary.unlink(missing_ok=True)
            sync_directory(directory)
        self._forget_old(manifest.version)

    def _forget_old(self, newest: int) -> None:
        for version in self._versions():
            if version < newest - _KEPT:
                (self.path / MANIFESTS / manifest_name(version)).unlink(missing_ok=True)

    def remove(self, paths: list[str]) -> None:
        """Remove those of these files that exist. Raises ArchiveUnusable."""
        for path in paths:
            with _storage(self.path / path):
                (self.path / path).unlink(missing_ok=True)

    def garbage(self, manifest: Manifest, now: float) -> list[str]:
        """Return the paths of files that can be removed without loss.

        The manifest names none of them, and they are too old for a running job. The archive has all
        their messages in other files.
        now: seconds since 1970. Raises ArchiveUnusable.
        """
        named = {each.path for each in manifest.files} | {each.path for each in manifest.dropped}
        has: dict[str, RangeSet] = {}
        for each in manifest.files:
            has.setdefault(key_of(each.source), RangeSet()).add(each.first, each.last)
        with _storage(self.path):
            return sorted(
                path
                for path, modified in self._files()
                if path not in named
                and now - modified > GARBAGE_SECONDS
                and _is_superfluous(path, has)
            )

    def data_files(self) -> Iterator[str]:
        """Yield the paths of all existing files, also of unnamed ones. Raises ArchiveUnusable."""
        with _storage(self.path):
            yield from sorted(path for path, _ in self._files())

    def _files(self) -> Iterator[tuple[str, float]]:
        for root, _, names in os.walk(self.path / DATA):
            for name in names:
                path = Path(root) / name
                with contextlib.suppress(FileNotFoundError):
                    yield str(path.relative_to(self.path)), path.stat().st_mtime


def _is_superfluous(path: str, has: Mapping[str, RangeSet]) -> bool:
    if path.rpartition("/")[2].startswith(WRITING):
        return True
    # A lost manifest may have named the file, and then the stores may no longer have its messages.
    content = content_of(path)
    if content is None or content[0] not in has:
        return False
    key, numbers = content
    return not RangeSet([numbers]).minus(has[key])


@contextlib.contextmanager
def _storage(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ArchiveUnusable(str(path), error.strerror or str(error)) from error

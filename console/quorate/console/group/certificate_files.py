"""The files of an authority for trying, and of the ends that it makes certificates for.

How a certificate is made is not known here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from quorate.console.group.authority import Authority
from quorate.protocol.errors import ConfigurationInvalid
from quorate.protocol.tls import Tls, environment_of

LOCAL_HOSTS = ("127.0.0.1", "localhost")
CLIENT = "client"
AUTHORITY = "ca.pem"
AUTHORITY_KEY = "ca.key.pem"


class CertificateFiles:
    """A directory with an authority, and a directory in it for each end."""

    def __init__(self, directory: Path) -> None:
        """Take the authority that is there, or make one. Raises ConfigurationInvalid, OSError."""
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory.resolve()
        certificate, key = self._directory / AUTHORITY, self._directory / AUTHORITY_KEY
        if certificate.exists() != key.exists():
            missing = key if certificate.exists() else certificate
            raise ConfigurationInvalid(str(directory), f"  {missing.name}: the file does not exist")
        if key.exists():
            try:
                self._authority = Authority.read(certificate.read_bytes(), key.read_bytes())
            except (TypeError, ValueError) as error:
                raise ConfigurationInvalid(str(directory), f"  {key.name}: {error}") from None
            return
        self._authority = Authority.new()
        _replace(key, self._authority.key, secret=True)
        _replace(certificate, self._authority.certificate)

    def issue(self, identity: str, hosts: Sequence[str] = ()) -> Tls:
        """Make a certificate for an identity, and write the files of this end.

        hosts: the names and addresses at which it may serve. Files that are there are replaced.
        """
        end = self._directory / identity
        end.mkdir(exist_ok=True)
        issued = self._authority.issue(identity, hosts)
        tls = Tls(*(str(end / name) for name in ("ca.pem", "certificate.pem", "key.pem")))
        _replace(Path(tls.key), issued.key, secret=True)
        _replace(Path(tls.certificate), issued.certificate)
        _replace(Path(tls.ca), self._authority.certificate)
        return tls


def for_local_group(directory: Path, stores: Iterable[str]) -> dict[str, Tls]:
    """Make certificates for stores on this machine, and for this process, which is their client."""
    files = CertificateFiles(directory)
    os.environ.update(environment_of(files.issue(CLIENT, LOCAL_HOSTS)))
    return {name: files.issue(name, LOCAL_HOSTS) for name in stores}


def _replace(path: Path, content: bytes, *, secret: bool = False) -> None:
    """Replace a file as a whole. secret: only its owner may read it, from the first byte on."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    new.rename(path)

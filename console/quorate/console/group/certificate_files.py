"""The files of an authority for trying, and of the ends that it makes certificates for.

How a certificate is made is not known here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from quorate.console.group.authority import Authority
from quorate.disk.files import replace_file
from quorate.protocol.errors import ConfigurationInvalid
from quorate.protocol.tls import Tls, environment_of

LOCAL_HOSTS = ("127.0.0.1", "localhost")
CLIENT = "client"
AUTHORITY = "ca.pem"
AUTHORITY_KEY = "ca.key.pem"

_OWNER_ALONE, _READABLE = 0o600, 0o644
"""The permissions of a file with a key, and of one with a certificate."""


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
        replace_file(key, self._authority.key, _OWNER_ALONE)
        replace_file(certificate, self._authority.certificate, _READABLE)

    def issue(self, identity: str, hosts: Sequence[str] = ()) -> Tls:
        """Make a certificate for an identity, and write the files of this end.

        hosts: the names and addresses at which it may serve. Files that are there are replaced.
        """
        end = self._directory / identity
        end.mkdir(exist_ok=True)
        issued = self._authority.issue(identity, hosts)
        tls = Tls(*(str(end / name) for name in ("ca.pem", "certificate.pem", "key.pem")))
        replace_file(Path(tls.key), issued.key, _OWNER_ALONE)
        replace_file(Path(tls.certificate), issued.certificate, _READABLE)
        replace_file(Path(tls.ca), self._authority.certificate, _READABLE)
        return tls


def for_local_group(directory: Path, stores: Iterable[str]) -> dict[str, Tls]:
    """Make certificates for stores on this machine, and for this process, which is their client."""
    files = CertificateFiles(directory)
    os.environ.update(environment_of(files.issue(CLIENT, LOCAL_HOSTS)))
    return {name: files.issue(name, LOCAL_HOSTS) for name in stores}

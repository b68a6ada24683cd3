"""Certificates for tests: an authority, and the files of one end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from quorate.console.group.authority import Authority
from quorate.protocol.tls import Tls

LOCAL = ("127.0.0.1", "localhost")


def files(
    directory: Path,
    authority: Authority,
    identity: str,
    *,
    hosts: Sequence[str] = LOCAL,
    days: float = 365,
    trusts: Authority | None = None,
) -> Tls:
    """Write the files of one end, over those of before. trusts: another authority than its own."""
    directory.mkdir(parents=True, exist_ok=True)
    issued = authority.issue(identity, hosts, days)
    contents = {
        "ca.pem": (trusts or authority).certificate,
        "certificate.pem": issued.certificate,
        "key.pem": issued.key,
    }
    for name, content in contents.items():
        # As tools do that rotate certificates: a file is replaced as a whole.
        (directory / f"{name}.new").write_bytes(content)
        (directory / f"{name}.new").rename(directory / name)
    ca, certificate, key = (str(directory / name) for name in contents)
    return Tls(ca, certificate, key)

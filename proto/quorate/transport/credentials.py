"""The TLS files of one end, read, checked, and made into the credentials of gRPC.

A file that is replaced counts for the next connection. Which channel or server uses the credentials
is decided in quorate.transport.channels. No key and no token is in a text that is made here.
"""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import grpc

from quorate.protocol.errors import ConfigurationInvalid
from quorate.protocol.tls import Tls
from quorate.transport.watched_files import WatchedFiles

_log = logging.getLogger("quorate.transport")

KEPT = "the TLS files that were there before stay"
"""Says in the log that new files cannot be used."""


@dataclass(frozen=True, slots=True)
class _Contents:
    """The contents of the files."""

    ca: bytes
    certificate: bytes | None
    key: bytes | None = field(repr=False)


def paths_of(tls: Tls | None) -> tuple[str, ...]:
    """Return the paths of the files that each connection depends on."""
    if tls is None:
        return ()
    return tuple(path for path in (tls.ca, tls.certificate, tls.key) if path)


def check_files(tls: Tls) -> None:
    """Raise ConfigurationInvalid, with every problem, unless the files can be used."""
    _contents(tls)
    if tls.token:
        _token(tls.token)


def channel_credentials(tls: Tls) -> grpc.ChannelCredentials:
    """Return the credentials of a channel. Raises ConfigurationInvalid."""
    contents = _contents(tls)
    credentials = grpc.ssl_channel_credentials(contents.ca, contents.key, contents.certificate)
    if not tls.token:
        return credentials
    token = grpc.metadata_call_credentials(_Bearer(tls.token), "quorate-token")
    return grpc.composite_channel_credentials(credentials, token)


def server_credentials(tls: Tls, *, mutual: bool) -> grpc.ServerCredentials:
    """Return the credentials of a server. Raises ConfigurationInvalid.

    mutual: clients must have a certificate, too.
    """
    if not tls.certificate:
        problem = "  certificate: must be given, with its key, because clients connect to this end"
        raise ConfigurationInvalid("of TLS", problem)
    files = _ServerFiles(tls)
    # gRPC takes None for files that have not changed; its types do not say so.
    return grpc.dynamic_ssl_server_credentials(files.used, files.changed, mutual)  # type: ignore[arg-type]


class _ServerFiles:
    """The files of a server, which gRPC asks for before each handshake, on threads of its own."""

    def __init__(self, tls: Tls) -> None:
        self._certificate = tls.certificate
        self._files = WatchedFiles(paths_of(tls), lambda: _configuration(_contents(tls)), KEPT)
        self.used = self._files.content

    def changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the files if they were replaced; None: gRPC goes on with those it has."""
        newest = self._files.content
        if newest is self.used:
            return None
        self.used = newest
        _log.info("new connections use the new certificate %s", self._certificate)
        return newest


def _configuration(contents: _Contents) -> grpc.ServerCertificateConfiguration:
    assert contents.key is not None
    assert contents.certificate is not None
    return grpc.ssl_server_certificate_configuration(
        [(contents.key, contents.certificate)], root_certificates=contents.ca
    )


class _Bearer(grpc.AuthMetadataPlugin):
    """The token of each call, from a file that may be replaced."""

    def __init__(self, path: str) -> None:
        kept = "the token that was there before stays"
        self._token = WatchedFiles((path,), partial(_token, path), kept)

    def __call__(
        self, context: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback
    ) -> None:
        del context  # the token is the same for every call
        callback((("authorization", f"Bearer {self._token.content}"),), None)


def _token(path: str) -> str:
    try:
        token = Path(path).read_text("ascii").strip()
    except OSError as error:
        raise ConfigurationInvalid("of TLS", f"  token {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isprintable() or " " in token:
        raise ConfigurationInvalid("of TLS", f"  token {path}: holds no token, one word of ASCII")
    return token


def _contents(tls: Tls) -> _Contents:
    problems: list[str] = []
    ca = _read("ca", tls.ca, problems)
    certificate = _read("certificate", tls.certificate, problems) if tls.certificate else None
    key = _read("key", tls.key, problems) if tls.key else None
    if not problems:
        problems = _unusable(tls)
    if problems:
        raise ConfigurationInvalid("of TLS", "\n".join(f"  {each}" for each in problems))
    return _Contents(ca, certificate, key)


def _read(name: str, path: str, problems: list[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        problems.append(f"{name} {path}: {error.strerror}")
        return b""


def _unusable(tls: Tls) -> list[str]:
    """Return what is wrong with the contents. gRPC itself says only that a handshake failed."""
    problems: list[str] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(tls.ca)
    except (OSError, ValueError):
        problems.append(f"ca {tls.ca}: holds no certificate in PEM")
    if tls.certificate:
        try:
            # A key with a pass phrase would be asked for at the terminal.
            context.load_cert_chain(tls.certificate, tls.key, password=lambda: b"")
        except (OSError, ValueError):
            problems.append(
                f"certificate {tls.certificate} and key {tls.key}: are not PEM, not of each other, "
                "or the key has a pass phrase"
            )
    return problems

"""The names of a caller: from its certificate, which TLS has checked, and from its bearer token.

What a caller may do is decided in quorate.protocol.access. A token is known here by its hash alone.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import grpc.aio

from quorate.protocol.access import Names
from quorate.protocol.errors import ConfigurationInvalid
from quorate.transport.watched_files import WatchedFiles

_HASH_CHARACTERS = 64
_TOKEN_BYTES = 32
"""The random bytes of a token. So many cannot be guessed, so a plain hash protects them."""


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def hash_of(token: str) -> str:
    """Return the hash under which a file has a token."""
    return hashlib.sha256(token.encode()).hexdigest()


class Tokens(Protocol):
    """The tokens that an end accepts."""

    def identity_of(self, token: str) -> str | None:
        """Return the identity that has this token; None: none has it."""
        ...


class EitherToken:
    """The tokens of several kinds."""

    def __init__(self, kinds: Sequence[Tokens]) -> None:
        """kinds: the first one that knows a token says whose it is."""
        self._kinds = tuple(kinds)

    def identity_of(self, token: str) -> str | None:
        """Return the identity that has this token; None: none has it."""
        found = (each.identity_of(token) for each in self._kinds)
        return next((identity for identity in found if identity is not None), None)


class TokenFile:
    """The tokens that an end accepts: lines of an identity and the hash of its token.

    The file may be replaced at any time.
    """

    def __init__(self, path: str) -> None:
        """Read the file. Raises ConfigurationInvalid."""
        kept = "the tokens that were there before stay"
        self._identities = WatchedFiles((path,), partial(read_tokens, path), kept)

    def identity_of(self, token: str) -> str | None:
        """Return the identity that has this token; None: none has it."""
        wanted, found = hash_of(token), None
        for known, identity in self._identities.content.items():
            if hmac.compare_digest(known, wanted):
                found = identity
        return found


def read_tokens(path: str) -> dict[str, str]:
    """Return the identities in a file, by the hash of each token. Raises ConfigurationInvalid."""
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigurationInvalid("of tokens", f"  {path}: {why}") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or len(words[1]) != _HASH_CHARACTERS:
            # The line is not shown: it may have a token that was put there by mistake.
            problem = f"  {path}, line {number}: is not an identity and the hash of its token"
            raise ConfigurationInvalid("of tokens", problem)
        found[words[1]] = words[0]
    return found


def names_of(context: grpc.aio.ServicerContext[Any, Any], tokens: Tokens | None) -> Names:
    """Return the names of a caller; empty: it has none, or its token is not known."""
    token = _token_of(context)
    if token is None:
        return _certified(context)
    identity = tokens.identity_of(token) if tokens is not None else None
    return _certified(context) | {identity} if identity is not None else frozenset()


def _certified(context: grpc.aio.ServicerContext[Any, Any]) -> Names:
    """Return the alternative names in the caller's certificate, or else its common name."""
    found = context.auth_context()
    names = found.get("x509_subject_alternative_name") or found.get("x509_common_name") or ()
    return frozenset(name.decode(errors="replace") for name in names)


def _token_of(context: grpc.aio.ServicerContext[Any, Any]) -> str | None:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization" and isinstance(value, str):
            return value.removeprefix("Bearer ")
    return None

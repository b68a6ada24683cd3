"""The identities in bearer tokens that an issuer has signed: JSON Web Tokens, verified by PyJWT.

The public keys of the issuer are in a file. Nothing is asked over the network, and no token is in
a text that is made here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from quorate.protocol.errors import ConfigurationInvalid
from quorate.transport.watched_files import WatchedFiles

_SIGNED_BY_KEY_PAIR = ("RSA", "EC", "OKP")
"""The kinds of keys whose public half cannot sign. With a shared secret each store could."""
_CLAIMS = ["exp", "iss", "aud", "sub"]
_CLOCK_SECONDS = 10.0
"""Seconds by which the clocks of the issuer and of this host may differ."""


class JwtTokens:
    """The tokens of one issuer. The subject of a token is the identity of its bearer."""

    def __init__(self, keys: str, issuer: str, audience: str) -> None:
        """Read the keys. The file may be replaced at any time.

        - keys: the path of a file with a JSON Web Key Set.
        - issuer, audience: what each token must name.

        Raises ConfigurationInvalid, also if PyJWT is not installed.
        """
        kept = "the keys that were there before stay"
        self._keys = WatchedFiles((keys,), partial(read_keys, keys), kept)
        self._issuer = issuer
        self._audience = audience

    def identity_of(self, token: str) -> str | None:
        """Return the identity in a token; None: it is not valid, or no longer."""
        jwt = _library()
        try:
            key = self._keys.content.get(jwt.get_unverified_header(token).get("kid"))
            if key is None:
                return None
            claims = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                issuer=self._issuer,
                audience=self._audience,
                leeway=_CLOCK_SECONDS,
                options={"require": _CLAIMS},
            )
        except jwt.PyJWTError:
            return None
        return str(claims["sub"]) or None


def read_keys(path: str) -> Mapping[str, Any]:
    """Return the keys in a file, by their IDs. Raises ConfigurationInvalid."""
    jwt = _library()
    try:
        keys = jwt.PyJWKSet.from_json(Path(path).read_text()).keys
    except OSError as error:
        raise _unusable(path, str(error.strerror)) from None
    except (ValueError, RecursionError, TypeError, AttributeError, jwt.PyJWTError):
        # The error is not shown: the file may have a private key by mistake.
        raise _unusable(path, "is no JSON Web Key Set with keys that can be used") from None
    for key in keys:
        if key.key_type not in _SIGNED_BY_KEY_PAIR or not key.key_id:
            raise _unusable(path, "each key needs a `kid`, and is of kind RSA, EC or OKP")
    return {key.key_id: key for key in keys}


def _unusable(path: str, detail: str) -> ConfigurationInvalid:
    return ConfigurationInvalid("of tokens", f"  {path}: {detail}")


def _library() -> Any:
    try:
        import jwt
    except ImportError:
        detail = "needs PyJWT; install the extra `jwt`, as docs/security.md says"
        raise ConfigurationInvalid("of tokens", f"  jwt: {detail}") from None
    return jwt

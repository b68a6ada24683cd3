"""An issuer of JSON Web Tokens, with its keys."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from jwt.algorithms import ECAlgorithm

ISSUER, AUDIENCE = "https://issuer.example", "quorate"


class Issuer:
    """An issuer that signs with one key."""

    def __init__(self, key_id: str = "one") -> None:
        """Draw a key."""
        self.key = generate_private_key(SECP256R1())
        self.key_id = key_id

    @property
    def public_key(self) -> dict[str, Any]:
        """The public key, as a key set has it."""
        found: dict[str, Any] = ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return {**found, "kid": self.key_id, "alg": "ES256"}

    def write(self, path: Path) -> Path:
        """Write the key set, and return its path."""
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"keys": [self.public_key]}))
        return new.rename(path)

    def token(self, subject: str = "desk", **claims: Any) -> str:
        """Return a token. claims: those that differ; None leaves one out."""
        usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "exp": time.time() + 600}
        given = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        return jwt.encode(given, self.key, "ES256", {"kid": self.key_id})

"""Bearer tokens that an issuer has signed: which of them name an identity."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from tests.issuer import AUDIENCE, ISSUER, Issuer

from quorate.protocol.errors import ConfigurationInvalid
from quorate.transport.identities import EitherToken, TokenFile, hash_of
from quorate.transport.jwt_tokens import JwtTokens


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def tokens(issuer: Issuer, tmp_path: Path) -> JwtTokens:
    return JwtTokens(str(issuer.write(tmp_path / "keys")), ISSUER, AUDIENCE)


def test_the_subject_of_a_valid_token_is_the_identity(issuer: Issuer, tokens: JwtTokens) -> None:
    assert tokens.identity_of(issuer.token("desk")) == "desk"


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1000},
        {"exp": None},
        {"nbf": time.time() + 1_000_000},
        {"iss": "https://another.example"},
        {"iss": None},
        {"aud": "another"},
        {"aud": None},
        {"sub": None},
        {"sub": ""},
    ],
)
def test_a_token_with_wrong_claims_names_nobody(
    issuer: Issuer, tokens: JwtTokens, claims: dict[str, Any]
) -> None:
    assert tokens.identity_of(issuer.token(**claims)) is None


def test_a_token_that_another_key_signed_names_nobody(tokens: JwtTokens) -> None:
    assert tokens.identity_of(Issuer().token()) is None
    assert tokens.identity_of(Issuer("other").token()) is None


def test_a_token_that_was_changed_names_nobody(issuer: Issuer, tokens: JwtTokens) -> None:
    head, claims, signature = issuer.token("desk").split(".")
    changed = json.loads(base64.urlsafe_b64decode(claims + "==")) | {"sub": "admin"}
    claims = base64.urlsafe_b64encode(json.dumps(changed).encode()).decode().rstrip("=")
    assert tokens.identity_of(f"{head}.{claims}.{signature}") is None


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_the_token_does_not_choose_how_it_is_checked(
    issuer: Issuer, tokens: JwtTokens, algorithm: str
) -> None:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "desk", "exp": time.time() + 600}
    secret = "" if algorithm == "none" else issuer.public_key["x"]
    token = jwt.encode(claims, secret, algorithm, {"kid": issuer.key_id})
    assert tokens.identity_of(token) is None


@pytest.mark.parametrize("token", ["", "a", "a.b.c", "é", "." * 100, "eyJhbGciOiJFUzI1NiJ9.e30."])
def test_what_is_no_token_names_nobody(tokens: JwtTokens, token: str) -> None:
    assert tokens.identity_of(token) is None


@pytest.mark.parametrize(
    "header", ["[" * 11_000, '{"kid": [1]}', '{"kid": {}, "alg": 1}', "null", '{"kid": 9e999}']
)
def test_a_header_that_says_nonsense_names_nobody(tokens: JwtTokens, header: str) -> None:
    encoded = base64.urlsafe_b64encode(header.encode()).decode().rstrip("=")
    assert tokens.identity_of(f"{encoded}.e30.eA") is None


def test_a_time_without_end_names_nobody(issuer: Issuer, tokens: JwtTokens) -> None:
    assert tokens.identity_of(issuer.token(exp=float("inf"))) is None


def test_new_keys_count_at_once(issuer: Issuer, tokens: JwtTokens, tmp_path: Path) -> None:
    later = Issuer("two")
    later.write(tmp_path / "keys")
    assert tokens.identity_of(later.token()) == "desk"
    assert tokens.identity_of(issuer.token()) is None


@pytest.mark.expects_log("the keys that were there before stay in use")
def test_keys_that_cannot_be_read_do_not_count(
    issuer: Issuer, tokens: JwtTokens, tmp_path: Path
) -> None:
    (tmp_path / "keys").write_text("{}")
    assert tokens.identity_of(issuer.token()) == "desk"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"keys": []}',
        '{"keys": [{"kty": "oct", "kid": "a", "k": "c2VjcmV0"}]}',
        '{"keys": [1]}',
    ],
)
def test_a_file_without_public_keys_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(content)
    with pytest.raises(ConfigurationInvalid, match="of tokens") as caught:
        JwtTokens(str(tmp_path / "keys"), ISSUER, AUDIENCE)
    assert "c2VjcmV0" not in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match="No such file"):
        JwtTokens(str(tmp_path / "keys"), ISSUER, AUDIENCE)


def test_a_caller_may_show_either_kind(issuer: Issuer, tokens: JwtTokens, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"viewer {hash_of('secret')}\n")
    either = EitherToken([TokenFile(str(tmp_path / "tokens")), tokens])
    assert either.identity_of("secret") == "viewer"
    assert either.identity_of(issuer.token("desk")) == "desk"
    assert either.identity_of("other") is None

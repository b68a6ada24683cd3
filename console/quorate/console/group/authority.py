"""A certificate authority for trying: it makes certificates for stores and clients, as PEM.

Nothing here writes a file. An authority for production protects its key, and is another program.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITY_NAME = "Quorate authority for trying"
_EARLIER = timedelta(days=1)
"""How long before now certificates begin: the clocks of two hosts differ."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


class Authority:
    """An authority: its key and its certificate."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        """Take a key and its certificate. Callers use `new` or `read`."""
        self._key = key
        self._certificate = certificate

    @classmethod
    def read(cls, certificate: bytes, key: bytes) -> Self:
        """Return the authority with this certificate and key, as PEM. Raises ValueError."""
        found = load_pem_private_key(key, None)
        if not isinstance(found, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is not one of an authority that was made here")
        return cls(found, x509.load_pem_x509_certificate(certificate))

    @classmethod
    def new(cls, days: float = 3650) -> Self:
        """Return an authority with a new key. days: until its certificate expires."""
        key = ec.generate_private_key(ec.SECP256R1())
        # Two authorities of one name would be taken for one, and errors would not say the cause.
        name = x509.Name(
            [x509.NameAttribute(NameOID.COMMON_NAME, f"{_AUTHORITY_NAME} {secrets.token_hex(4)}")]
        )
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = _builder(name, name, key, key, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(usage, True)
        return cls(key, builder.sign(key, hashes.SHA256()))

    @property
    def key(self) -> bytes:
        """The authority's private key as PEM."""
        return _pem(self._key)

    @property
    def certificate(self) -> bytes:
        """The authority's own certificate as PEM: what `ca` of the settings names."""
        return self._certificate.public_bytes(Encoding.PEM)

    def issue(self, identity: str, hosts: Sequence[str] = (), days: float = 365) -> Issued:
        """Return a certificate for an identity, which may serve at these hosts.

        hosts: names and IP addresses. days: until it expires; below 0: it has expired.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, identity)])
        builder = _builder(subject, self._certificate.subject, key, self._key, days)
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), False)
        names = [x509.DNSName(identity), *map(_host, hosts)]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Issued(certificate.public_bytes(Encoding.PEM), _pem(key))


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    days: float,
) -> x509.CertificateBuilder:
    """Return what all certificates have. From Python 3.13 on, clients ask for both identifiers."""
    of_issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    now = datetime.now(UTC)
    ends = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, ends) - _EARLIER)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(of_issuer, False)
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)

"""Certificates for the servers of tests: an authority, and what it has signed."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

_VALID: Final = dt.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """A certificate with its key, in PEM files; `both` has the key first, then the certificate."""

    certificate: Path
    key: Path
    both: Path


SIGNS: Final = x509.KeyUsage(
    key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False,
    key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
    decipher_only=False,
)  # fmt: skip


class Authority:
    """Signs certificates; its own is in `file`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("authority of a test")
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        own = (
            _builder(self._name, self._name, self._key)
            .add_extension(constraints, critical=True)
            .add_extension(SIGNS, critical=True)
            .add_extension(_identifier(self._key), critical=False)
        )
        signed = own.sign(self._key, hashes.SHA256())
        self.file = directory / "authority.pem"
        self.file.write_bytes(signed.public_bytes(Encoding.PEM))

    def issue(self, name: str) -> Issued:
        """A certificate for 127.0.0.1 and localhost; of a client it has the name."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        # Who signed it: Python 3.13 and later insist on that.
        signer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
            _identifier(self._key)
        )
        builder = (
            _builder(_name(name), self._name, key)
            .add_extension(names, critical=False)
            .add_extension(signer, critical=False)
        )
        signed = builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        paths = [self._directory / f"{name}{end}" for end in (".crt", ".key", ".pem")]
        for path, content in zip(paths, (signed, secret, secret + signed), strict=True):
            path.write_bytes(content)
        return Issued(*paths)


def _identifier(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID)
        .not_valid_after(now + _VALID)
    )

"""An own certificate authority and a serving certificate: made, and renewed long before they end.

Pure but for the operating system's randomness: time is handed in. Promises: as long as ``renewed`` is asked
at least once a week, the serving certificate is always signed by an authority that has been in the bundle
for SETTLE_S, so no API server ever meets a certificate that it was not told of. Keys: ECDSA P-256.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rescheduler.errors import ReschedulerError

DAY_S: Final = 86_400.0
AUTHORITY_LIFE_S: Final = 365 * DAY_S
SERVING_LIFE_S: Final = 90 * DAY_S
RENEW_AFTER: Final = 2 / 3
"""Part of its life after which a certificate is renewed."""
SETTLE_S: Final = 3_600.0
"""So long a new authority is only in the bundle before it signs: time for every API server to learn it."""
BACKDATE_S: Final = 7_200.0
"""Clocks of API servers may be so much behind."""


AnExtension = TypeVar("AnExtension", bound=x509.ExtensionType)


class DamagedError(ReschedulerError, ValueError):
    """What is stored is no certificate or no key, or none that this product could have made."""


@dataclass(frozen=True, slots=True)
class Material:
    """All PEM. ``authorities``: newest first; only the newest has a key. ``certificate``: the serving one."""

    authorities: tuple[bytes, ...]
    authority_key: bytes
    certificate: bytes
    key: bytes

    @property
    def bundle(self) -> bytes:
        """What an API server must trust."""
        return b"".join(self.authorities)


def renewed(material: Material | None, hosts: tuple[str, ...], now_s: float) -> Material:
    """``material`` itself if nothing is due, else what takes its place. Idempotent.

    ``hosts``: DNS names and IP addresses that the certificate must carry. ``now_s``: seconds since 1970.
    Damaged material is replaced altogether.
    """
    if material is not None:
        try:
            return _serving(_authority(material, now_s), hosts, now_s)
        except DamagedError:
            pass  # made anew below: nothing of it can be used
    return _issue(_new_authority((), now_s), hosts, now_s)


def split(bundle: bytes) -> tuple[bytes, ...]:
    """The certificates of a bundle, one PEM each. Raises DamagedError."""
    try:
        found = x509.load_pem_x509_certificates(bundle)
    except ValueError as error:
        raise DamagedError(str(error)) from error
    return tuple(certificate.public_bytes(serialization.Encoding.PEM) for certificate in found)


def _authority(material: Material, now_s: float) -> Material:
    """A new authority in front of the older ones if that is due; authorities that have ended are left out."""
    newest = _load(material.authorities[0]) if material.authorities else None
    if newest is None or _due(newest, now_s):
        added = _new_authority(material.authorities, now_s)
        return replace(added, certificate=material.certificate, key=material.key)
    kept = _in_time(material.authorities, now_s)
    return material if kept == material.authorities else replace(material, authorities=kept)


def _in_time(authorities: tuple[bytes, ...], now_s: float) -> tuple[bytes, ...]:
    return tuple(pem for pem in authorities if _load(pem).not_valid_after_utc.timestamp() > now_s)


def _new_authority(older: tuple[bytes, ...], now_s: float) -> Material:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rescheduler webhook authority")])
    certificate = (
        _builder(name, name, key, now_s, AUTHORITY_LIFE_S)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    return Material((pem, *_in_time(older, now_s)[:2]), _pem_of(key), b"", b"")


def _serving(material: Material, hosts: tuple[str, ...], now_s: float) -> Material:
    """The serving certificate renewed if that is due, and if the newest authority has settled or none else helps."""
    _signing_key(material)
    newest = _load(material.authorities[0])
    if not _usable(material, hosts, now_s):
        return _issue(material, hosts, now_s)
    settled = now_s >= newest.not_valid_before_utc.timestamp() + BACKDATE_S + SETTLE_S
    if settled and _due(_load(material.certificate), now_s):
        return _issue(material, hosts, now_s)
    return material


def _usable(material: Material, hosts: tuple[str, ...], now_s: float) -> bool:
    if not material.certificate:
        return False
    certificate = _load(material.certificate)
    key = _load_key(material.key)
    if key.public_key() != certificate.public_key():
        return False
    names = _extension(certificate, x509.SubjectAlternativeName)
    trusted = any(_issued_by(certificate, _load(pem)) for pem in material.authorities)
    in_time = certificate.not_valid_after_utc.timestamp() > now_s
    return trusted and in_time and set(_names(hosts)) <= set(names)


def _issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    identifier = _extension(certificate, x509.AuthorityKeyIdentifier)
    subject = _extension(authority, x509.SubjectKeyIdentifier)
    return identifier.key_identifier == subject.digest


def _extension(certificate: x509.Certificate, kind: type[AnExtension]) -> AnExtension:
    """Certificates that somebody else has made may lack it."""
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError) as error:
        raise DamagedError(str(error)) from error


def _issue(material: Material, hosts: tuple[str, ...], now_s: float) -> Material:
    authority, signing_key = _load(material.authorities[0]), _signing_key(material)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rescheduler webhook")])
    certificate = (
        _builder(name, authority.subject, key, now_s, SERVING_LIFE_S)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(_names(hosts)), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False
        )
        .sign(signing_key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    return replace(material, certificate=pem, key=_pem_of(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now_s: float, life_s: float
) -> x509.CertificateBuilder:
    begins = dt.datetime.fromtimestamp(int(now_s - BACKDATE_S), dt.UTC)
    ends = dt.datetime.fromtimestamp(int(now_s + life_s), dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _names(hosts: tuple[str, ...]) -> list[x509.GeneralName]:
    return [_name(host) for host in hosts]


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _due(certificate: x509.Certificate, now_s: float) -> bool:
    begins_s = certificate.not_valid_before_utc.timestamp() + BACKDATE_S
    life_s = certificate.not_valid_after_utc.timestamp() - begins_s
    return now_s >= begins_s + life_s * RENEW_AFTER


def _load(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise DamagedError(str(error)) from error


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise DamagedError(str(error)) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise DamagedError("not an elliptic curve key")
    return key


def _signing_key(material: Material) -> ec.EllipticCurvePrivateKey:
    key = _load_key(material.authority_key)
    if key.public_key() != _load(material.authorities[0]).public_key():
        raise DamagedError("the authority's key is another's")
    return key


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )

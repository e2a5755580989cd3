"""Certificates, which authenticate the relays of sites to each other. One authority signs all.

A certificate names its site as a URI, `relay://site/NYC`, and no host name or address, so that a
relay may move.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, unquote

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from relay.keys.files import make_directory, read_public, read_secret, write_secret
from sitestack.model.errors import ConfigurationError

AUTHORITY_KEY = "authority.key"
AUTHORITY_CERTIFICATE = "authority.pem"
BRIDGE_KEY = "bridge.key"
BRIDGE_CERTIFICATE = "bridge.pem"

#: Validity in days; a relay warns in the last 30 of them.
SITE_DAYS = 365
AUTHORITY_DAYS = 3650
#: Tolerated clock difference: new certificates are valid from this long ago.
CLOCK_SKEW = timedelta(hours=1)

#: Errors of invalid certificates that are no ValueError.
_INVALID = (x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType)

_SCHEME = "relay://site/"
#: Maximum length of a common name in X.509. It is only informative.
_COMMON_NAME_CHARS_MAX = 64


@dataclass(frozen=True, slots=True)
class Credential:
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """The site named in a certificate, and the limits of its validity (Unix time)."""

    site: str | None
    begins: float
    ends: float


def make_authority(begins: datetime, days: float = AUTHORITY_DAYS) -> Credential:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("relay authority")
    built = _builder(name, name, key, begins, begins + timedelta(days=days))
    built = built.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    built = built.add_extension(_usage(signs_certificates=True), critical=True)
    return _credential(built.sign(key, hashes.SHA256()), key)


def make_certificate(authority: Credential, site: str, begins: datetime, days: float = SITE_DAYS) -> Credential:
    """Make a certificate for a site, valid from `begins` but no longer than its authority."""
    issuer, signer = x509.load_pem_x509_certificate(authority.certificate), _load_key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    ends = min(begins + timedelta(days=days), issuer.not_valid_after_utc)
    built = _builder(_name(site[:_COMMON_NAME_CHARS_MAX]), issuer.subject, key, begins, ends)
    built = built.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    built = built.add_extension(_usage(signs_certificates=False), critical=True)
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    built = built.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    built = built.add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(site_uri(site))]), critical=False)
    built = built.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    return _credential(built.sign(signer, hashes.SHA256()), key)


def make_certificates(directory: Path, sites: Sequence[str], *, force: bool = False, days: float = SITE_DAYS) -> None:
    """Make certificates for these sites in a key directory, and the authority if it is missing.

    `force` replaces existing certificates, but never the authority. Raises ConfigurationError.
    """
    begins = datetime.now(UTC) - CLOCK_SKEW
    authority = _authority(directory, begins)
    for site in dict.fromkeys(sites):
        place = directory / site
        make_directory(place)
        trusted = place / AUTHORITY_CERTIFICATE
        if not trusted.exists() or authority.certificate not in read_public(trusted):  # else it may trust others too
            write_secret(trusted, authority.certificate, replace=True)
        if force or not (place / BRIDGE_CERTIFICATE).exists():
            made = make_certificate(authority, site, begins, days)
            write_secret(place / BRIDGE_KEY, made.key, replace=True)
            write_secret(place / BRIDGE_CERTIFICATE, made.certificate, replace=True)


def _authority(directory: Path, begins: datetime) -> Credential:
    key, certificate = directory / AUTHORITY_KEY, directory / AUTHORITY_CERTIFICATE
    if key.exists() and certificate.exists():
        return Credential(read_secret(certificate), read_secret(key))
    if key.exists() != certificate.exists():
        missing = certificate if key.exists() else key
        raise ConfigurationError(f"{missing}: is missing, so nothing can be signed; a new authority needs a new directory.")
    made = make_authority(begins)
    make_directory(directory)
    write_secret(key, made.key)
    write_secret(certificate, made.certificate)
    return made


def read_facts(pem: bytes) -> CertificateFacts:
    """Parse a certificate. Raises ValueError for an invalid one."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        extensions = certificate.extensions
    except _INVALID as error:
        raise ValueError(str(error)) from error
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        site = site_named(names.get_values_for_type(x509.UniformResourceIdentifier))
    except x509.ExtensionNotFound:
        site = None
    return CertificateFacts(site, certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp())


def is_issued_by(der: bytes, authorities: bytes) -> bool:
    """Return whether one of these authorities (PEM) signed a certificate (DER).

    Raises ValueError for an invalid authority.
    """
    try:
        trusted = x509.load_pem_x509_certificates(authorities)
    except _INVALID as error:
        raise ValueError(str(error)) from error
    return any(_has_signed(authority, der) for authority in trusted)


def _has_signed(authority: x509.Certificate, der: bytes) -> bool:
    try:
        x509.load_der_x509_certificate(der).verify_directly_issued_by(authority)
    except (InvalidSignature, TypeError, UnsupportedAlgorithm, ValueError, *_INVALID):  # TypeError: a key type that cannot sign
        return False
    return True


def site_uri(site: str) -> str:
    return f"{_SCHEME}{quote(site, safe='')}"


def site_named(uris: Iterable[str]) -> str | None:
    """Return the site named by a certificate's URIs; None unless there is exactly one."""
    names = [uri.removeprefix(_SCHEME) for uri in uris if uri.startswith(_SCHEME)]
    if len(names) != 1:
        return None
    site = unquote(names[0], errors="replace")
    return site if site and site_uri(site) == f"{_SCHEME}{names[0]}" else None


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
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


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _credential(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Credential:
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Credential(certificate.public_bytes(pem), private)


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigurationError("The authority's key cannot be read.") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigurationError("The authority's key is of another kind than relay keygen makes.")
    return key

"""Key directories of sites with certificates of a test's choice: of any authority, for any time."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from cryptography import x509
from cryptography.x509.oid import ExtensionOID

from relay.keys import certificates
from relay.keys.certificates import (
    AUTHORITY_CERTIFICATE,
    AUTHORITY_DAYS,
    BRIDGE_CERTIFICATE,
    BRIDGE_KEY,
    Credential,
    make_authority,
    make_certificate,
)
from relay.keys.files import make_directory, write_secret

LONG_AGO = datetime.now(UTC) - timedelta(days=1_000)


def authority() -> Credential:
    """An authority that has been valid for long, so that its certificates may have ended."""
    return make_authority(LONG_AGO, AUTHORITY_DAYS)


def signed(by: Credential, site: str, from_day: float = -1, to_day: float = 365) -> Credential:
    """A certificate that is valid between these days, counted from now."""
    return make_certificate(by, site, datetime.now(UTC) + timedelta(days=from_day), to_day - from_day)


def signed_for_no_site(by: Credential) -> Credential:
    """A certificate of something else than a site, such as the authority of a whole company signs too."""
    with patch.object(certificates, "site_uri", lambda site: f"https://{site}"):
        return signed(by, "SFO")


def signed_for_damaged_name(by: Credential) -> Credential:
    """A certificate whose only URI is no text."""
    uri = b"relay://site/\xff"
    names = bytes([0x30, len(uri) + 2, 0x86, len(uri)]) + uri
    made = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, names)
    with patch.object(x509, "SubjectAlternativeName", lambda _: made):
        return signed(by, "SFO")


def write_site(directory: Path, own: Credential, *trusted: Credential) -> Path:
    """Replace the bridge's part of a site's key directory; returns the directory."""
    make_directory(directory)
    authorities = b"".join([each.certificate for each in trusted])
    for name, data in ((AUTHORITY_CERTIFICATE, authorities), (BRIDGE_KEY, own.key), (BRIDGE_CERTIFICATE, own.certificate)):
        write_secret(directory / name, data, replace=True)
    return directory


def context(directory: Path, *, server: bool = False, with_certificate: bool = True) -> ssl.SSLContext:
    """Return a context of the standard library with the certificate of a directory; it accepts every peer."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    if with_certificate:
        made.load_cert_chain(directory / BRIDGE_CERTIFICATE, directory / BRIDGE_KEY)
    return made

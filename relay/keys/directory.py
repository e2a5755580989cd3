"""The layout of a key directory, and its creation.

    DIR/authority.key, DIR/authority.pem    signs the certificates of all sites; kept off the nodes
    DIR/NYC/site.keys                       the key ring of NYC; seals traffic between its members
    DIR/NYC/bridge.pem, bridge.key          the certificate of NYC, presented to other sites
    DIR/NYC/authority.pem                   verifies the certificates of other sites

Each node of NYC has a copy of `DIR/NYC`, named in its `security.keys`.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

from relay.keys.certificates import AUTHORITY_CERTIFICATE, AUTHORITY_KEY, SITE_DAYS, make_certificates
from relay.keys.files import read_secret, write_secret
from sitestack.config import UNFIT_SITE, can_be_site
from sitestack.model.errors import ConfigurationError
from sitestack.seal.key_ring import SECRET_BYTES, KeyRing

KEY_RING = "site.keys"

_HEAD = "# The keys of the site: every holder of one can be a member. `relay keys` changes them.\n"


def make_key_directory(directory: Path, sites: Sequence[str], *, force: bool = False, days: float = SITE_DAYS) -> None:
    """Make the secrets of these sites; leave other sites and the authority unchanged.

    `force` replaces existing secrets. `days` is the validity of the certificates. Raises
    ConfigurationError; names and existing keys are checked before anything is written.
    """
    for site in sites:
        if why := _why_unfit(site):
            raise ConfigurationError(f"{site!r} cannot be a site's directory: {why}")
        if not force and (directory / site / KEY_RING).exists():
            raise ConfigurationError(f"{directory / site}: has keys already; name only new sites, or --force new keys on it.")
    make_certificates(directory, sites, force=force, days=days)
    for site in dict.fromkeys(sites):
        write_key_ring(directory / site, KeyRing.of(new_secret()), replace=force)


def renew_certificates(directory: Path, sites: Sequence[str], *, days: float = SITE_DAYS) -> None:
    """Renew the certificates of sites that have keys. Raises ConfigurationError."""
    for site in sites:
        if not (directory / site / KEY_RING).exists():
            raise ConfigurationError(f"{directory / site}: has no keys yet, so there is no certificate to renew.")
    make_certificates(directory, sites, force=True, days=days)


def new_secret() -> bytes:
    return secrets.token_bytes(SECRET_BYTES)


def read_key_ring(site_directory: Path) -> KeyRing:
    """Read the key ring of a site. Raises ConfigurationError, beginning with the file's path."""
    path = site_directory / KEY_RING
    try:
        return KeyRing.parse(read_secret(path).decode("ascii"))
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path}: is not a key ring; make one with relay keygen.") from None
    except ConfigurationError as error:
        sentence = str(error)
        raise ConfigurationError(sentence if sentence.startswith(str(path)) else f"{path}: {sentence}") from None


def write_key_ring(site_directory: Path, ring: KeyRing, *, replace: bool = True) -> None:
    """Write the key ring of a site. Raises ConfigurationError."""
    write_secret(site_directory / KEY_RING, f"{_HEAD}{ring.format()}".encode(), replace=replace)


def _why_unfit(site: str) -> str:
    """Return why a site name is unusable as a directory; empty if it is usable."""
    if not can_be_site(site):
        return UNFIT_SITE
    if site in (AUTHORITY_KEY, AUTHORITY_CERTIFICATE):
        return "its name is that of another file."
    return ""

"""Certificates: their contents, their signers, and their way into a key directory."""

from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from relay.keys import certificates
from relay.keys.certificates import (
    BRIDGE_CERTIFICATE,
    BRIDGE_KEY,
    CLOCK_SKEW,
    is_issued_by,
    make_authority,
    make_certificate,
    make_certificates,
    read_facts,
    site_named,
    site_uri,
)
from relay.keys.directory import make_key_directory
from sitestack.model.errors import ConfigurationError

NOW = datetime(2026, 11, 22, tzinfo=UTC)
DAY_S = 86_400.0


def der(pem: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem.decode())


@pytest.mark.parametrize("site", ["NYC", "New York/2", "Zürich", "%41", "relay://site/SFO", "x" * 200])
def test_a_certificate_names_any_site(site: str) -> None:
    made = make_certificate(make_authority(NOW), site, NOW, days=10)
    facts = read_facts(made.certificate)
    assert (facts.site, facts.begins, facts.ends) == (site, NOW.timestamp(), NOW.timestamp() + 10 * DAY_S)


@pytest.mark.parametrize(
    "uris",
    [
        [],
        ["https://site/NYC"],
        [site_uri("NYC"), site_uri("SFO")],
        ["relay://site/New York"],  # not as `site_uri` writes it, and so not the only spelling of that site
        ["relay://site/%4eYC"],
        ["relay://site/%FF"],
        ["relay://site/"],
    ],
)
def test_missing_invalid_or_multiple_uris_name_no_site(uris: list[str]) -> None:
    assert site_named(uris) is None


def test_no_certificate_outlives_its_authority_which_names_no_site() -> None:
    authority = make_authority(NOW, days=5)
    assert read_facts(authority.certificate).site is None
    assert read_facts(make_certificate(authority, "NYC", NOW, days=10).certificate).ends == NOW.timestamp() + 5 * DAY_S


def test_the_issuer_of_a_certificate_is_found_among_several_authorities() -> None:
    one, two, three = (make_authority(NOW) for _ in range(3))
    nyc = der(make_certificate(two, "NYC", NOW).certificate)
    assert is_issued_by(nyc, one.certificate + two.certificate)
    assert not is_issued_by(nyc, one.certificate + three.certificate)


def test_an_invalid_certificate_has_no_issuer_and_an_invalid_authority_raises() -> None:
    assert not is_issued_by(b"no certificate", make_authority(NOW).certificate)
    with pytest.raises(ValueError, match="PEM"):
        is_issued_by(b"", b"no authority")


def test_an_authority_whose_key_is_damaged_has_signed_nothing() -> None:
    """The relay asks this about each link once the file has changed; OpenSSL loads such a file."""
    authority = make_authority(NOW)
    curve = bytes.fromhex("06082a8648ce3d030107")
    damaged = der(authority.certificate).replace(curve, curve[:-1] + b"\x7f")
    nyc = der(make_certificate(authority, "NYC", NOW).certificate)
    assert not is_issued_by(nyc, ssl.DER_cert_to_PEM_cert(damaged).encode())


def test_a_key_is_not_printed() -> None:
    authority = make_authority(NOW)
    assert "PRIVATE" in authority.key.decode()
    assert "PRIVATE" not in repr(authority)


def test_every_site_of_a_key_directory_gets_its_own_and_the_authority_stays(tmp_path: Path) -> None:
    make_key_directory(tmp_path / "keys", ["NYC"])
    make_key_directory(tmp_path / "keys", ["SFO"])
    authority = (tmp_path / "keys" / "authority.pem").read_bytes()
    for site in ("NYC", "SFO"):
        place = tmp_path / "keys" / site
        pem = (place / BRIDGE_CERTIFICATE).read_bytes()
        assert (read_facts(pem).site, (place / "authority.pem").read_bytes()) == (site, authority)
        assert is_issued_by(der(pem), authority)
        assert stat.S_IMODE((place / BRIDGE_KEY).stat().st_mode) == 0o600
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(place / BRIDGE_CERTIFICATE, place / BRIDGE_KEY)
    assert stat.S_IMODE((tmp_path / "keys" / "authority.key").stat().st_mode) == 0o600
    now = datetime.now(UTC)
    facts = read_facts((tmp_path / "keys" / "NYC" / BRIDGE_CERTIFICATE).read_bytes())
    assert abs(facts.begins - (now - CLOCK_SKEW).timestamp()) < 60
    assert facts.ends - facts.begins == certificates.SITE_DAYS * DAY_S


def test_a_certificate_is_replaced_only_by_force(tmp_path: Path) -> None:
    make_certificates(tmp_path, ["NYC"])
    first = (tmp_path / "NYC" / BRIDGE_CERTIFICATE).read_bytes()
    make_certificates(tmp_path, ["NYC"])
    assert (tmp_path / "NYC" / BRIDGE_CERTIFICATE).read_bytes() == first
    make_certificates(tmp_path, ["NYC"], force=True)
    renewed = (tmp_path / "NYC" / BRIDGE_CERTIFICATE).read_bytes()
    assert renewed != first
    assert is_issued_by(der(renewed), (tmp_path / "authority.pem").read_bytes())


def test_other_authorities_that_a_site_trusts_stay(tmp_path: Path) -> None:
    make_certificates(tmp_path, ["NYC"])
    trusted, other = tmp_path / "NYC" / "authority.pem", make_authority(NOW).certificate
    both = trusted.read_bytes() + other
    trusted.write_bytes(both)
    make_certificates(tmp_path, ["NYC"], force=True)
    assert trusted.read_bytes() == both
    trusted.write_bytes(other)
    make_certificates(tmp_path, ["NYC"], force=True)
    assert trusted.read_bytes() == (tmp_path / "authority.pem").read_bytes()


@pytest.mark.parametrize("missing", ["authority.key", "authority.pem"])
def test_half_an_authority_is_refused_and_nothing_is_made(tmp_path: Path, missing: str) -> None:
    make_key_directory(tmp_path, ["NYC"])
    (tmp_path / missing).unlink()
    with pytest.raises(ConfigurationError, match=f"{missing}: is missing"):
        make_key_directory(tmp_path, ["SFO"])
    assert not (tmp_path / "SFO").exists()


@pytest.mark.parametrize("text", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_an_invalid_authority_key_is_refused(tmp_path: Path, text: bytes) -> None:
    make_key_directory(tmp_path, ["NYC"])
    (tmp_path / "authority.key").write_bytes(text)
    with pytest.raises(ConfigurationError, match="authority's key"):
        make_key_directory(tmp_path, ["SFO"])

"""Certificates are read again when their files change, and their expiry is announced beforehand."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtensionOID

from relay.events import BridgeClosed, BridgeConnected, BridgeSend, Dial, DialFailed
from relay.node.bridge.credentials import DAY_S, Credentials
from sitestack.model.errors import ConfigurationError
from tests.harness.bridges import Site, at_port, linked, two_sites
from tests.harness.certificates import authority, context, signed, write_site
from tests.harness.sockets import until

OURS = authority()
LATER = authority()


class Clock:
    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_s


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_site(tmp_path / "NYC", signed(OURS, "NYC", to_day=100), OURS)


def test_nothing_is_wrong_with_a_certificate_that_is_valid_for_long(directory: Path) -> None:
    found = Credentials(directory, "NYC")
    assert (found.problem, found.warning, found.refusal) == ("", "", "")
    assert found.expires_s == pytest.approx(100 * DAY_S, abs=60)
    assert not found.look()


@pytest.mark.parametrize(("days", "said"), [(69, ""), (71, "in 29 days; make a new one"), (99.6, "in 0 days; make a new one")])
def test_certificate_expiry_is_reported_a_month_ahead(directory: Path, days: float, said: str) -> None:
    clock = Clock()
    found = Credentials(directory, "NYC", clock)
    clock.ahead_s = days * DAY_S
    assert found.warning.endswith(said)
    assert bool(found.warning) == bool(said)
    assert found.problem == ""
    assert found.client is not None, "until then links are made"


def test_after_its_end_no_link_is_made_and_a_new_one_is_read(directory: Path) -> None:
    clock = Clock()
    found = Credentials(directory, "NYC", clock)
    clock.ahead_s = 101 * DAY_S
    assert (found.client, found.server) == (None, None)
    assert found.problem == found.refusal
    assert found.problem.startswith("the certificate ended on 2")
    assert found.warning == ""
    assert found.expires_s is not None
    assert found.expires_s < 0
    write_site(directory, signed(OURS, "NYC", to_day=200), OURS)
    assert found.look()
    assert found.client is not None
    assert found.problem == ""


def test_before_its_beginning_no_link_is_made(tmp_path: Path) -> None:
    found = Credentials(write_site(tmp_path / "NYC", signed(OURS, "NYC", 1, 100), OURS), "NYC")
    assert found.client is None
    assert "begins on" in found.problem


def test_files_that_are_gone_withdraw_the_certificate_until_they_are_back(directory: Path) -> None:
    found = Credentials(directory, "NYC")
    (directory / "bridge.pem").rename(directory / "aside")
    assert found.look()
    assert (found.client, found.server, found.expires_s) == (None, None, None)
    assert found.problem == found.refusal == f"{directory}/bridge.pem: cannot be read (No such file or directory)"
    assert not found.look()
    (directory / "aside").rename(directory / "bridge.pem")
    assert found.look()
    assert found.client is not None
    assert found.problem == ""


@pytest.mark.parametrize("name", ["bridge.key", "bridge.pem", "authority.pem"])
def test_a_half_written_file_is_reported_and_changes_nothing(directory: Path, name: str) -> None:
    found = Credentials(directory, "NYC")
    before, whole = found.client, (directory / name).read_bytes()
    (directory / name).write_bytes(whole[: len(whole) // 2])
    assert not found.look()
    assert found.client is before
    assert found.problem.startswith(str(directory))
    (directory / name).write_bytes(whole)
    assert found.look()
    assert found.problem == ""


VERSION, KEY_USAGE, SUBJECT_KEY = b"\xa0\x03\x02\x01\x02", b"\x55\x1d\x0f", b"\x55\x1d\x0e"


@pytest.mark.parametrize(
    ("name", "field", "changed"),
    [
        ("bridge.pem", VERSION, VERSION[:-1] + b"\x03"),
        ("bridge.pem", SUBJECT_KEY, KEY_USAGE),
        ("authority.pem", VERSION, VERSION[:-1] + b"\x03"),
    ],
    ids=["version", "twice", "authority"],
)
def test_a_certificate_with_one_damaged_byte_is_reported(directory: Path, name: str, field: bytes, changed: bytes) -> None:
    """The library has errors of its own for a version, and for an extension that comes twice."""
    found = Credentials(directory, "NYC")
    before, whole = found.client, ssl.PEM_cert_to_DER_cert((directory / name).read_text())
    (directory / name).write_text(ssl.DER_cert_to_PEM_cert(whole.replace(field, changed)))
    assert not found.look()
    assert found.client is before
    assert found.problem.startswith(str(directory))


def test_a_certificate_with_names_of_an_unknown_kind_changes_nothing(directory: Path) -> None:
    """Else it would end all members that reread it."""
    found, party = Credentials(directory, "NYC"), bytes.fromhex("3002a500")
    made = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, party)
    with patch.object(x509, "SubjectAlternativeName", lambda _: made):
        write_site(directory, signed(OURS, "NYC"), OURS)
    assert not found.look()
    assert found.client is not None
    assert found.problem.startswith(str(directory))


def test_a_key_and_a_certificate_that_do_not_fit_change_nothing(directory: Path) -> None:
    found = Credentials(directory, "NYC")
    other = signed(OURS, "NYC")
    (directory / "bridge.pem").write_bytes(other.certificate)
    assert not found.look()
    assert "do not match" in found.problem
    (directory / "bridge.key").write_bytes(other.key)
    assert found.look()
    assert found.problem == ""


@pytest.mark.parametrize(
    ("read", "refusal"),
    [
        ("from relay.node.bridge.credentials import *; Credentials(Path({0!r}), 'NYC')", "do not match"),
        (
            "import ssl; from relay.node.http.credentials import *; from relay.node.http.credentials import _load; "
            "_load(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), "
            "HttpSettings(certificate={0!r} + '/bridge.pem', private_key={0!r} + '/bridge.key'))",
            "cannot be used",
        ),
    ],
)
def test_an_encrypted_key_is_refused_and_no_terminal_is_asked_for_its_password(
    directory: Path, read: str, refusal: str
) -> None:
    """The library would ask on the terminal or standard input, and the node would stand still meanwhile."""
    path = directory / "bridge.key"
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    encrypted = serialization.BestAvailableEncryption(b"secret")
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encrypted))
    with subprocess.Popen(
        [sys.executable, "-c", read.format(str(directory))],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            process.wait(20)
            assert process.stderr is not None
            assert refusal in process.stderr.read()
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("name", "mode", "why"),
    [
        ("bridge.key", 0o644, "every user of this machine can read it"),
        ("authority.pem", 0o666, "others than its owner can write"),
    ],
)
def test_files_that_others_could_get_at_are_refused(directory: Path, name: str, mode: int, why: str) -> None:
    """C21."""
    found = Credentials(directory, "NYC")
    (directory / name).chmod(mode)
    assert not found.look()
    assert why in found.problem
    with pytest.raises(ConfigurationError, match=f"{name}: {why}"):
        Credentials(directory, "NYC")


def test_a_world_readable_certificate_is_accepted(directory: Path) -> None:
    for name in ("bridge.pem", "authority.pem"):
        (directory / name).chmod(0o644)
    assert Credentials(directory, "NYC").problem == ""


@pytest.mark.parametrize(("site", "named"), [("SFO", "site 'NYC'"), ("nyc", "site 'NYC'")])
def test_the_certificate_of_another_site_is_refused(directory: Path, site: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=f"bridge.pem: names {named}, and this is a member of site '{site}'"):
        Credentials(directory, site)


def test_a_change_by_way_of_a_symbolic_link_is_seen(tmp_path: Path, directory: Path) -> None:
    """Kubernetes exchanges all files of a secret by turning one link."""
    newer = write_site(tmp_path / "newer", signed(OURS, "NYC", to_day=200), OURS)
    link = tmp_path / "link"
    link.symlink_to(directory)
    found = Credentials(link, "NYC")
    (tmp_path / "turned").symlink_to(newer)
    os.replace(tmp_path / "turned", link)
    assert found.look()
    assert found.expires_s == pytest.approx(200 * DAY_S, abs=60)


# -- with links -----------------------------------------------------------------------------------------------------------


async def test_links_survive_a_renewal_and_new_links_use_the_new_certificate(tmp_path: Path) -> None:
    """C19."""
    write_site(tmp_path / "NYC", signed(OURS, "NYC"), OURS)
    write_site(tmp_path / "SFO", signed(OURS, "SFO", to_day=1), OURS)
    async with linked(keys=tmp_path) as (nyc, before, sfo, number):
        write_site(tmp_path / "SFO", signed(OURS, "SFO", to_day=300), OURS)
        assert sfo.bridge.reread_certificates()
        assert not nyc.bridge.reread_certificates()
        sfo.bridge.carry_out(BridgeSend(number, b"as before"))
        assert await nyc.receives(9) == b"as before"
        sfo.bridge.carry_out(Dial("NYC", nyc.address))
        after = (await nyc.hears(BridgeConnected)).connection
        shown = [nyc.bridge._connections[each].stream.certificate for each in (before, after)]  # type: ignore[union-attr]
        assert shown[0] != shown[1]


async def test_a_link_ends_when_the_authority_of_the_other_site_is_trusted_no_more(tmp_path: Path) -> None:
    """So is a site put out whose key is stolen. Until all have new certificates, both authorities are trusted."""
    write_site(tmp_path / "NYC", signed(LATER, "NYC"), OURS, LATER)
    write_site(tmp_path / "SFO", signed(OURS, "SFO"), OURS, LATER)
    async with linked(keys=tmp_path) as (nyc, number, sfo, _):
        write_site(tmp_path / "NYC", signed(LATER, "NYC"), LATER)
        assert nyc.bridge.reread_certificates()
        assert await nyc.hears(BridgeClosed) == BridgeClosed(number)
        assert nyc.bridge.statistics().distrusted == 1
        sfo.bridge.carry_out(Dial("NYC", nyc.address))
        for _ in range(2):
            await sfo.hears(BridgeClosed)
        write_site(tmp_path / "SFO", signed(LATER, "SFO"), LATER)
        assert sfo.bridge.reread_certificates()
        sfo.bridge.carry_out(Dial("NYC", nyc.address))
        assert (await nyc.hears(BridgeConnected)).certified == "SFO"


async def test_a_caller_amid_its_handshake_is_judged_by_the_new_authorities(tmp_path: Path) -> None:
    """Its link would stay until the next change of the files."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    caller = context(write_site(tmp_path / "SFO", signed(OURS, "SFO"), OURS)).wrap_bio(incoming, outgoing)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nyc = Site(at_port(), nursery, write_site(tmp_path / "NYC", signed(LATER, "NYC"), OURS, LATER))
            await nyc.listens()
            stream = await trio.open_tcp_stream(*nyc.address)
            while True:
                try:
                    caller.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    await stream.send_all(outgoing.read())
                    incoming.write(await stream.receive_some())
            write_site(tmp_path / "NYC", signed(LATER, "NYC"), LATER)
            assert nyc.bridge.reread_certificates()
            await stream.send_all(outgoing.read())
            await until(lambda: nyc.bridge.statistics().unproven + nyc.bridge.statistics().accepted == 1)
            assert "the certificates of this site changed meanwhile" in nyc.bridge.problems()["relay.bridge.bind"]
            assert nyc.told == []
            await stream.aclose()
            nursery.cancel_scope.cancel()


async def test_without_a_valid_certificate_of_its_own_a_relay_neither_calls_nor_answers(tmp_path: Path) -> None:
    write_site(tmp_path / "NYC", signed(OURS, "NYC", -10, -1), OURS)
    write_site(tmp_path / "SFO", signed(OURS, "SFO"), OURS)
    async with two_sites(keys=tmp_path) as (nyc, sfo):
        await nyc.listens()
        await sfo.listens()
        nyc.bridge.carry_out(Dial("SFO", sfo.address))
        await nyc.hears(DialFailed)
        sfo.bridge.carry_out(Dial("NYC", nyc.address))
        await sfo.hears(DialFailed)
        problems = nyc.bridge.problems()
        assert set(problems) == {"relay.bridge.bind", "relay.bridge.peers.SFO", "bridge.pem"}
        assert all("the certificate ended on" in sentence for sentence in problems.values())
        write_site(tmp_path / "NYC", signed(OURS, "NYC"), OURS)
        assert nyc.bridge.reread_certificates()
        sfo.bridge.carry_out(Dial("NYC", nyc.address))
        assert (await nyc.hears(BridgeConnected)).certified == "SFO"

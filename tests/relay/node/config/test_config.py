"""The configuration file: accepted values, refusals, and their sentences."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from relay.gateway.config import RoutesConfig
from relay.layer import RelayConfig
from relay.node.config.config_file import DEPTH_MAX, FILE_BYTES_MAX, PROBLEMS_MAX, load_config, print_config
from relay.node.config.settings import HttpSettings, NodeConfig
from relay_lab.simulation.plan_json import CHARS_MAX, from_text
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError

Load = Callable[..., NodeConfig]

FULL = """
site: NYC
name: B
order: fifo
transport: {interface: 10.0.0.2, multicast: false, port: 7801}
discovery:
  initial_hosts: ["a.nyc:7801", "10.0.0.3:7801"]
membership: {leave_timeout_s: 2}
protocols:
  failure_detection: {timeout_s: 1.5}
relay:
  bridge:
    bind: 0.0.0.0:7900
    peers:
      SFO: [d.sfo:7900, e.sfo:7900]
      NYC: [b.nyc:7900]
  budget: {entries: 100}
  grace_s: 5
journal: {directory: /var/lib/relay}
http: {bind: "127.0.0.1:8080"}
log: {level: debug}
"""


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load_text(text: str | bytes, **options: object) -> NodeConfig:
        path = tmp_path / "relay.yaml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return load_config(path, **options)  # type: ignore[arg-type]

    return load_text


def problems(load: Load, text: str | bytes) -> list[str]:
    """Return the problems of a file, without its path."""
    with pytest.raises(ConfigurationError) as caught:
        load(text)
    return [line.partition("relay.yaml")[2].lstrip(":").lstrip() for line in str(caught.value).splitlines()]


def test_a_file_sets_its_values_and_defaults_fill_the_rest(load: Load) -> None:
    config = load(FULL)
    assert (config.site, config.name, config.order) == ("NYC", "B", "fifo")
    assert config.transport == replace(NodeConfig().transport, interface="10.0.0.2", multicast=False, port=7801)
    assert config.discovery.initial_hosts == (Physical("a.nyc", 7801), Physical("10.0.0.3", 7801))
    assert config.membership.leave_timeout_s == 2.0
    assert config.protocols.failure_detection.timeout_s == 1.5
    assert config.relay.bridge.peers["SFO"] == (Physical("d.sfo", 7900), Physical("e.sfo", 7900))
    assert config.http.bind == Physical("127.0.0.1", 8080)
    assert load("site: NYC") == replace(NodeConfig(), site="NYC")


def test_the_relay_layer_receives_only_the_other_sites_as_peers(load: Load) -> None:
    layer = load(FULL).relay_layer()
    assert list(layer.gateway.peers) == ["SFO"]
    assert (layer.gateway.grace_s, layer.buffer.budget_entries) == (5.0, 100)


def test_a_file_with_only_a_site_gives_the_defaults_of_the_relay_layer(load: Load) -> None:
    """They stand once: a second number beside the first would be right until one of them is changed."""
    config = load("site: NYC")
    assert config.relay_layer() == RelayConfig()
    assert config.relay.bridge.connections_max == RelayConfig().gateway.connections_max


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(load: Load) -> None:
    environment = {"RELAY_SITE": "SFO", "RELAY_NAME": "E"}
    config = load(FULL, environment=environment)
    assert (config.site, config.name) == ("SFO", "E")
    assert list(config.relay_layer().gateway.peers) == ["NYC"]
    config = load(FULL, environment=environment, site="LON", name="G")
    assert (config.site, config.name) == ("LON", "G")


def test_the_environment_may_name_the_peers_and_wins_over_the_file(load: Load) -> None:
    peers = "LON=10.0.3.1:7700 OSL=g.osl:7700 LON=10.0.3.2:7700"
    config = load(FULL, environment={"RELAY_PEERS": peers})
    assert config.relay.bridge.peers == {
        "LON": (Physical("10.0.3.1", 7700), Physical("10.0.3.2", 7700)),
        "OSL": (Physical("g.osl", 7700),),
    }
    assert config.relay.bridge.bind == load(FULL).relay.bridge.bind


def test_the_environment_names_other_routers(load: Load) -> None:
    config = load("site: NYC\ndiscovery: {routers: [a:1]}", environment={"RELAY_ROUTERS": "b:2 10.0.0.1:3"})
    assert config.discovery.routers == (Physical("b", 2), Physical("10.0.0.1", 3))
    with pytest.raises(ConfigurationError, match=r"RELAY_ROUTERS\.routers\[0\]: must be host:port"):
        load("site: NYC", environment={"RELAY_ROUTERS": "b"})


@pytest.mark.parametrize(
    ("peers", "sentence"),
    [
        ("bridge.sfo:7700", "RELAY_PEERS: must be SITE=host:port, any number of times, not 'bridge.sfo:7700'."),
        ("=bridge.sfo:7700", "RELAY_PEERS: must be SITE=host:port, any number of times, not '=bridge.sfo:7700'."),
        ("SFO=bridge.sfo", "RELAY_PEERS.peers.SFO[0]: must be host:port, not 'bridge.sfo'."),
    ],
)
def test_invalid_peers_in_the_environment_give_one_sentence(load: Load, peers: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load("site: NYC", environment={"RELAY_PEERS": peers})
    assert str(caught.value).partition(": ")[2] == sentence


def test_without_multicast_a_name_for_all_members_will_do(load: Load) -> None:
    config = load("{site: NYC, transport: {multicast: false, port: 7601}, discovery: {dns: 'relay.nyc:7601'}}")
    assert config.discovery.dns == Physical("relay.nyc", 7601)
    assert "discovery.dns" in problems(load, "{site: NYC, transport: {multicast: false}}")[0]
    assert problems(load, "{site: NYC, discovery: {dns: 'relay.nyc:0'}}") == [
        "discovery.dns: the port cannot be 0; it is the transport.port of all members."
    ]


def test_all_interfaces_will_do_with_an_address_for_the_others(load: Load) -> None:
    config = load("{site: NYC, transport: {interface: 0.0.0.0, external_host: 10.0.0.2}}")
    assert config.transport.interface == "0.0.0.0"


def test_three_mistakes_are_three_sentences_each_with_its_path(load: Load) -> None:
    assert problems(
        load, "site: NYC\ntransport: {prot: 1, multicast_ttl_hops: many}\nrelay: {bridge: {peers: {SFO: [d.sfo]}}}"
    ) == [
        "transport.prot: unknown key; did you mean port?",
        "transport.multicast_ttl_hops: must be a whole number, not 'many'.",
        "relay.bridge.peers.SFO[0]: must be host:port, not 'd.sfo'.",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("order: random", "order: must be one of total, fifo, not 'random'."),
        ("log: {level: 3}", "log.level: must be one of debug, info, warning, error, not 3."),
        ("transport: {multicast: 1}", "transport.multicast: must be true or false, not 1."),
        ("transport: {port: true}", "transport.port: must be a whole number, not True."),
        ("transport: {port: 1.0}", "transport.port: must be a whole number, not 1.0."),
        ("transport: [1]", "transport: must be a mapping of keys to values, not [1]."),
        ("membership: {when_split: majorty, members: 3}", "membership.when_split: must be one of both, majority, not "),
        ("relay: {when_down: {SFO: gap}, bridge: {peers: {SFO: 'd:1'}}}", "relay.bridge.peers.SFO: must be a list, not 'd:1'."),
        ("transport: {1: 2}", "transport: has the key 1, which is not text (put it into quotes)."),
        ("relay: {grace_s: .nan}", "relay.grace_s: must be a number, not nan."),
        ("relay: {grace_s: .inf}", "relay.grace_s: must be a number, not inf."),
        ("relay: {bridge: {bind: 7900}}", "relay.bridge.bind: must be host:port, not 7900."),
        ("relay: {bridge: {bind: 'h:99999'}}", "relay.bridge.bind: must be host:port, not 'h:99999'."),
        ("relay: {bridge: {peers: {SFO: 'd:1'}}}", "relay.bridge.peers.SFO: must be a list, not 'd:1'."),
        ("relay: {bridge: {bind: '[::g]:7700'}}", "relay.bridge.bind: '::g' is no IPv6 address."),
        (
            "relay: {bridge: {peers: {SFO: ['::1:7700']}}}",
            "relay.bridge.peers.SFO[0]: must be host:port, not '::1:7700'; an IPv6 address stands in brackets: [::1]:7800.",
        ),
        ("relay: {bridge: {peers: {SFO: ['[::ffff:1.2.3.4]:1']}}}", "relay.bridge.peers.SFO[0]: '::ffff:"),
        ("relay: {bridge: {peers: {SFO: ['[ff02::1]:1']}}}", "relay.bridge.peers.SFO[0]: 'ff02::1' is the address of a group."),
        ("transport: {interface: '::1'}", "transport.interface: ::1 is of IPv6; set transport.ipv6."),
        ("transport: {ipv6: true, interface: '::1'}", "transport.multicast: the interface ::1 has none; set it to false"),
        ("transport: {kind: tunnel, ipv6: true, interface: '::1'}", "discovery.routers: with transport.kind tunnel all goes"),
        ("transport: {ipv6: true, interface: 10.0.0.1}", "transport.interface: 10.0.0.1 is of IPv4, but "),
        ("transport: {ipv6: true, multicast_group: 239.1.1.1}", "transport.multicast_group: 239.1.1.1 is of IPv4, but "),
        (
            "transport: {ipv6: true, multicast_group: 'ff02::1', more_interfaces: [10.0.0.0/8]}",
            "transport.multicast_group: IPv4 and IPv6 use different groups; leave it empty.",
        ),
        ("relay: {bridge: {peers: {SFO: ['1.2.3.256:1']}}}", "relay.bridge.peers.SFO[0]: '1.2.3.256' is no IPv4 address, and "),
        ("relay: {bridge: {peers: {SFO: ['0.0.0.0:1']}}}", "relay.bridge.peers.SFO[0]: 0.0.0.0 leads each machine to itself"),
        ("discovery: {initial_hosts: ['[::]:1']}", "discovery.initial_hosts[0]: :: leads each machine to itself; name a host."),
        ("relay: {bridge: {peers: {SFO: ['a b:1']}}}", "relay.bridge.peers.SFO[0]: 'a b' cannot be the name of a host."),
        ("discovery: {initial_hosts: ['[fe80::1]:1']}", "discovery.initial_hosts[0]: 'fe80::1' is an address of one link only"),
        ("discovery: {initial_hosts: ['[fd00::1]:1']}", "discovery.initial_hosts[0]: fd00::1 is of IPv6; set transport.ipv6."),
        ("nonsense: 1", "nonsense: unknown key; known keys are "),
        (
            "relay: {masters: 1}",
            "relay.masters: was removed; one member relays for its site; to spread load, run several groups",
        ),
        ("discovery: {answer_interval_s: 1}", "discovery.answer_interval_s: was removed; its default is now fixed"),
        ("protocols: {sequencer: {order: fifo}}", "protocols.sequencer.order: cannot be set; it follows from order."),
        ("transport: {port: 65536}", "transport.port: a port is a number from 0 to 65535."),
        ("transport: {datagram_bytes_max: 100}", "transport.datagram_bytes_max: must be from 1024 to 65507."),
        ("transport: {multicast: false}", "discovery.initial_hosts: without multicast name some members here"),
        ("transport: {external_host: me.example}", "transport.external_host: must be an IPv4 or IPv6 address of one host."),
        ("transport: {interface: 0.0.0.0, external_host: 0.0.0.0}", "transport.external_host: must be an IPv4 or IPv6 address"),
        ("transport: {interface: 0.0.0.0}", "transport.interface: 0.0.0.0 is no address at which others reach this member; "),
        ("membership: {join_timeout_s: -1}", "membership.join_timeout_s: must not be negative."),
        ("relay: {link: {window_bytes: -1}}", "relay.link.window_bytes: must not be negative."),
        ("relay: {link: {window_bytes: 33554433}}", "relay.link.window_bytes: must be at most 33554432, half of relay.budget."),
        ("relay: {link: {rate_max_bytes_s: 65535}}", "relay.link.rate_max_bytes_s: must be at least 65536, relay.pace_min"),
        ("relay: {pace_min_bytes_s: 0, link: {rate_max_bytes_s: 0}}", "relay.link.rate_max_bytes_s: must be more than 0."),
        ("relay: {link: {compress: gzip}}", "relay.link.compress: must be one of zstd"),
        ("membership: {leader: {flush_timeout_s: 3}}", "membership.leader.flush_timeout_s: must be longer than"),
        ("relay: {link: {frame_bytes_max: 10000000}}", "relay.link.frame_bytes_max: must be at least one and"),
        ("protocols: {batching: {batch_bytes_max: 4000000}}", "protocols.batching.batch_bytes_max: a batch must fit into"),
        ("protocols: {batching: {message_bytes_max: 8388609}}", "protocols.batching.message_bytes_max: a message must fit"),
        ("protocols: {fragment: {idle_s: 60}}", "protocols.fragment.idle_s: must be longer than"),
        ("relay: {link: {chunk_bytes: 0}}", "relay.link.chunk_bytes: must be more than 0."),
        ("transport: {receive_datagrams_max: 0}", "transport.receive_datagrams_max: must be more than 0."),
        ("relay: {link: {routed_bytes_max: 65536}}", "relay.link.routed_bytes_max: must be at least 17825792, the window of"),
        ("relay: {link: {chunk_bytes: 16777216}}", "relay.link.frame_bytes_max: must be at least 16781312, a piece of a route"),
        ("relay: {link: {timeout_s: 1}}", "relay.link.timeout_s: must be at least twice relay.link.heartbeat_s"),
        ("journal: {directory: x, retained_bytes_max: 1000}", "journal.retained_bytes_max: must be at least twice journal.seg"),
        ("channel: {backlog_hold_s: 0}", "channel.backlog_hold_s: must be more than 0."),
        ("relay: {dial_s: 0}", "relay.dial_s: must be more than 0."),
        ("relay: {unicast: {retry_s: 0}}", "relay.unicast.retry_s: must be more than 0."),
        ("protocols: {nakack: {ask_delay_s: 0.0}}", "protocols.nakack.ask_delay_s: must be more than 0."),
        ("relay: {budget: {entries: 0}}", "relay.budget.entries: must be from 1 to "),
        ("relay: {budget: {bytes: 0}}", "relay.budget.bytes: must be more than 0."),
        (
            "relay: {budget: {bytes: 23000000}}\ntransport: {datagram_bytes_max: 1400}",
            "relay.budget.bytes: must be at most 16384 times transport.datagram_bytes_max, because a joiner",
        ),
        ("relay: {budget: {bytes: 200000000}}", "relay.budget.bytes: must be at most 134217728, half of protocols.fragment."),
        (
            "relay: {link: {frame_bytes_max: 300000000, routed_bytes_max: 400000000}}",
            "relay.link.frame_bytes_max: must be at most",
        ),
        ("protocols: {fragment: {frame_bytes_max: 300000000}}", "protocols.fragment.partial_bytes_max: must be at least twice"),
        (
            "protocols: {batching: {message_bytes_max: 100000}, fragment: {frame_bytes_max: 1000000}}\n"
            "relay: {budget: {bytes: 400000}, link: {frame_bytes_max: 900000}}",
            "protocols.fragment.frame_bytes_max: must be at least 1 MiB more than protocols.batching.message_bytes_max.",
        ),
        (
            "protocols: {batching: {window_bytes: 60000000}}",
            "protocols.sequencer.undelivered_bytes_max: must be at least 76777224, protocols.batching.window_bytes and two",
        ),
        (
            "protocols: {batching: {batch_bytes_max: 40000000}, flow_control: {window_bytes: 40000000}}",
            "protocols.sequencer.undelivered_bytes_max: must be at least 81048576, protocols.batching.window_bytes and two",
        ),
        (
            "transport: {datagram_bytes_max: 1400}\nprotocols: {nakack: {window_count_max: 16505}}",
            "protocols.nakack.window_count_max: must be at least 17477, as many datagrams as a frame of relay.link.",
        ),
        (
            "transport: {datagram_bytes_max: 1400}\nprotocols: {batching: {message_bytes_max: 70000000},"
            " sequencer: {undelivered_bytes_max: 200000000}, flow_control: {backlog_bytes_max: 70000000},"
            " nakack: {window_count_max: 65785}, unicast: {queue_bytes_max: 200000000}}\n"
            "relay: {link: {frame_bytes_max: 105000000, routed_bytes_max: 200000000}}",
            "protocols.nakack.window_count_max: must be at least 69656, as many datagrams of transport.datagram_bytes_max as",
        ),
        (
            "protocols: {unicast: {queue_bytes_max: 18874375}}",
            "protocols.unicast.queue_bytes_max: must be at least 18874376, twice the largest batch and 1 MiB.",
        ),
        ("relay: {bridge: {peers: {SFO: []}}}", "relay.bridge.peers.SFO: names no address."),
        ("relay: {bridge: {via: {LON: SFO}}}", "relay.bridge.via.LON: 'SFO' is not among relay.bridge.peers."),
        (
            "relay: {bridge: {peers: {SFO: [sfo:1], LON: [lon:1]}, via: {LON: SFO}}}",
            "relay.bridge.via.LON: the site is among relay.bridge.peers, so it needs no route.",
        ),
        ("relay: {bridge: {forward: [SFO]}}", "relay.bridge.forward: 'SFO' is neither among relay.bridge.peers nor in"),
        ("relay: {offline_after_s: {SFO: 60}, bridge: {peers: {SFO: [d:1]}}}", "relay.offline_after_s: needs membership.w"),
        (
            "membership: {when_split: majority, members: 3}\n"
            "relay: {offline_after_s: {SFO: 10}, bridge: {peers: {SFO: [sfo:7700]}}}",
            "relay.offline_after_s.SFO: must be more than relay.grace_s, or a failover",
        ),
        ("relay: {bridge: {bind: '0.0.0.0:0'}}", "relay.bridge.bind: the port cannot be 0"),
        ("relay: {bridge: {bind: 'a..b:7700'}}", "relay.bridge.bind: 'a..b' cannot be the name of a host."),
        (f"relay: {{bridge: {{bind: '{'x' * 64}.nyc:7700'}}}}", "relay.bridge.bind: 'xxx"),
        ("relay: {bridge: {peers: {SFO: ['d.sfo:1', 'e..sfo:1']}}}", "relay.bridge.peers.SFO[1]: 'e..sfo' cannot be the name"),
        ("relay: {bridge: {unanswered_timeout_s: 3000000}}", "relay.bridge.unanswered_timeout_s: must be at most 2147483."),
        ("relay: {bridge: {dial_timeout_s: 0}}", "relay.bridge.dial_timeout_s: must be more than 0."),
        ("relay: {link: {chunk_bytes: 1}}", "relay.link.chunk_bytes: must be at least 1000."),
        ("relay: {link: {hello_s: 0}}", "relay.link.hello_s: must be more than 0."),
        ("relay: {link: {write_s: 0}}", "relay.link.write_s: must be more than 0."),
        ("name: 'A '", "name: has white space around it."),
        ("relay: {bridge: {peers: {NYC: [nyc:7700]}}}", "relay.bridge.peers: names no site but NYC, which is this site."),
        (
            "relay: {bridge: {peers: {' SFO': [sfo:7700]}}}",
            "relay.bridge.peers: ' SFO' cannot be a site: a site's name has 1 to",
        ),
        (f"relay: {{bridge: {{peers: {{{'S' * 65}: [sfo:7700]}}}}}}", "relay.bridge.peers: 'SSS"),
        (
            "relay: {bridge: {peers: {SFO: [sfo:7700]}, via: {'': SFO}}}",
            "relay.bridge.via: '' cannot be a site: a site's name has 1 to 64 printable characters, none of them white space",
        ),
        ("relay: {dial_s: 6}", "relay.dial_s_max: must not be less than relay.dial_s."),
        ("relay: {unicast: {retry_s: 9}}", "relay.unicast.retry_s_max: must not be less than relay.unicast.retry_s."),
        ("relay: {unicast: {give_up_s: 1}}", "relay.unicast.give_up_s: must be longer than relay.unicast.retry_s, or"),
        (
            "protocols: {failure_detection: {heartbeat_interval_s: 1.5}}",
            "protocols.failure_detection.timeout_s: must be at least twice protocols.failure_detection.heart",
        ),
        (
            "protocols: {unicast: {ask_interval_s: 2}}",
            "protocols.unicast.ask_interval_s_max: must not be less than protocols.unicast.ask_interval_s.",
        ),
        (
            "membership: {quarantine: {silence_s: 0.9}}",
            "membership.quarantine.silence_s: must be at least twice protocols.failure_detection.heartbeat_interval_s, or one",
        ),
        (
            "membership: {quarantine: {limit_s: 2}}",
            "membership.quarantine.limit_s: must not be less than membership.quarantine.silence_s.",
        ),
        ("discovery: {stranger_s: 0.5}", "discovery.stranger_s: must be at least twice protocols.failure_detection.heart"),
        ("protocols: {resolver: {give_up_s: 0.9}}", "protocols.resolver.give_up_s: must be at least twice protocols.resolver."),
        ("protocols: {unicast: {give_up_s: 3}}", "protocols.unicast.give_up_s: must be at least twice protocols.unicast.retr"),
        ("protocols: {unicast: {linger_s: 0.1}}", "protocols.unicast.linger_s: must be at least twice protocols.unicast.retr"),
        ("protocols: {unicast: {tombstone_s: 120}}", "protocols.unicast.tombstone_s: must be longer than protocols.unicast."),
        (
            "relay: {bridge: {peers: {nyc: [nyc:7700]}}}",
            "relay.bridge.peers: 'nyc' differs from this site, 'NYC', in upper and lower case only.",
        ),
        ("relay: {bridge: {peers: {SFO: [d:1]}, via: {nyc: SFO}}}", "relay.bridge.via: 'nyc' differs from this site, 'NYC',"),
        (
            "relay: {bridge: {bind: 'a.nyc:7700', peers: {SFO: [d.sfo:7700, a.nyc:7700]}}}",
            "relay.bridge.peers.SFO[1]: a.nyc:7700 is the address of this site itself (relay.bridge.bind).",
        ),
        (
            "relay: {bridge: {bind: '0.0.0.0:7700', peers: {SFO: ['localhost:7700']}}}",
            "relay.bridge.peers.SFO[0]: localhost:7700 is the address of this site itself (relay.bridge.bind).",
        ),
        (
            "relay: {bridge: {peers: {SFO: [d.sfo:7700], LON: [g.lon:7700, d.sfo:7700]}}}",
            "relay.bridge.peers.LON[1]: d.sfo:7700 is also an address of SFO; a relay serves one site.",
        ),
        ("relay: {bridge: {routers: [a:0]}}", "relay.bridge.routers[0]: the port cannot be 0."),
        (
            "relay: {bridge: {bind: '0.0.0.0:7900', routers: ['127.0.0.1:7900']}}",
            "relay.bridge.routers[0]: 127.0.0.1:7900 is the address of this site itself",
        ),
        (
            f"relay: {{bridge: {{routers: [{', '.join(f'a:{n}' for n in range(1, 18))}]}}}}",
            "relay.bridge.routers: names 17, but at",
        ),
        ("relay: {bridge: {connections_max: 2147483648}}", "relay.bridge.connections_max: must be at most 65535."),
        ("relay: {bridge: {pending_max: 2147483648}}", "relay.bridge.pending_max: must be at most 65535."),
        ("transport: {receive_buffer_bytes: 2147483648}", "transport.receive_buffer_bytes: "),
        ("transport: {send_buffer_bytes: 2147483648}", "transport.send_buffer_bytes: "),
        ("name: A@NYC", "name: must not contain @, which separates name and site."),
        (f"name: {'x' * 129}", "name: must have at most 128 characters, not 129."),
    ],
)
def test_each_invalid_value_gives_one_sentence(load: Load, text: str, sentence: str) -> None:
    [problem] = problems(load, f"site: NYC\n{text}")
    assert problem.startswith(sentence)
    assert problem.endswith(".")


def test_a_site_needs_a_name(load: Load) -> None:
    assert problems(load, "") == ["site: the site has no name."]
    assert load("", environment={"RELAY_SITE": "NYC"}).site == "NYC"


@pytest.mark.parametrize(
    "site", [" NYC", "NYC\t", "N" * 65, "N\u200bYC", "N YC", "..", "a/b", "NYC>SFO", "A@NYC", "NYC=1", "NYC,SFO"]
)
def test_a_site_needs_a_name_that_can_be_one(load: Load, site: str) -> None:
    [problem] = problems(load, json.dumps({"site": site}))
    assert problem == (
        "site: a site's name has 1 to 64 printable characters, none of them white space or one of / = @ , >, and does not "
        "begin with a dot."
    )


def test_a_key_without_a_value_keeps_its_default(load: Load) -> None:
    assert load("site: NYC\ntransport:\nname:\nrelay: {bridge: {bind: }}") == replace(NodeConfig(), site="NYC")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("site: [", "is not valid YAML"),
        ("site: \x00", "is not valid YAML"),
        (b"site: \xff\xfe\xfd", "is not valid YAML"),
        ("site: NYC\nsite: SFO", "the key 'site' appears twice"),
        ("site: NYC\n<<: {site: SFO}", "<<: unknown key; known keys are "),
        ("a: &a [1]\nb: *a", "aliases are not supported"),
        ("just text", "the file: must be a mapping of keys to values, not 'just text'."),
    ],
)
def test_a_file_that_is_no_configuration_is_refused_in_one_sentence(load: Load, text: str | bytes, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(text)
    [problem] = str(caught.value).splitlines()
    assert says in problem


def test_a_printed_configuration_loads_unchanged(load: Load) -> None:
    config = load(FULL)
    assert load(print_config(config)) == config


#: Many times the time for a configuration, on a slow machine.
LIMIT_S = 2.0
FILES = {
    "many mistakes": "".join([f"abcdefgh{n}: 1\n" for n in range(3_000)]),
    "nested lists": f"a: {'[' * 50_000}",
    "nested lists that end": f"a: {'[' * 500}{']' * 500}",
    "nested mappings": f"a: {'{a: ' * 50_000}",
    "nested by indentation": "".join([f"{' ' * n}a:\n" for n in range(500)]),
    "a long number": f"a: {'9' * 200_000}",
    "a long number to the base of 60": f"a: 1{':59' * 60_000}",
    "a long text": f"name: {'x' * 200_000}",
    "a set": f"a: !!set {{{','.join([f'k{n}' for n in range(4_000)])}}}",
    "pairs": f"a: !!pairs [{','.join([f'k{n}: 1' for n in range(4_000)])}]",
    "bytes": "name: !!binary eHh4",
    "a date": "name: !!timestamp 2001-01-01",
    "an object": "a: !!python/object/apply:os.system ['x']",
    "too large": "#" * (FILE_BYTES_MAX + 1),
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_a_configuration_is_refused_soon_and_shortly(text: str, load: Load) -> None:
    began = time.thread_time()
    with pytest.raises(ConfigurationError) as caught:
        load(text, site="NYC")
    assert time.thread_time() - began < LIMIT_S
    assert len(str(caught.value).splitlines()) <= PROBLEMS_MAX + 1
    assert len(str(caught.value)) < 20_000


@pytest.mark.parametrize(("depth", "is_deep"), [(DEPTH_MAX - 2, False), (DEPTH_MAX, True)])
def test_a_deep_value_is_refused_with_the_reason(depth: int, is_deep: bool, load: Load) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(f"site: NYC\na: {'[' * depth}{']' * depth}\n")
    assert ("nested too deeply" in str(caught.value)) is is_deep


def test_a_value_like_a_date_is_read_as_text(load: Load) -> None:
    assert load("site: 2001-01-01").site == "2001-01-01"


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "9" * 5_000, '{"why": 1e999}', '{"a": ' + "9" * 400 + "}", " " * (CHARS_MAX + 1)]
)
def test_a_plan_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]{1,300}$"):
        from_text(text)


@pytest.mark.conforms("REL-33")
def test_a_route_is_configured_at_its_ends_and_in_between(load: Load) -> None:
    config = load("site: NYC\nrelay: {bridge: {peers: {SFO: ['127.0.0.1:7901']}, via: {LON: SFO}, forward: [SFO, LON]}}")
    layer = config.relay_layer()
    assert layer.routes == RoutesConfig({"LON": "SFO"}, ("SFO", "LON"))
    assert list(layer.gateway.peers) == ["SFO"]
    assert layer.sites == ("LON", "SFO")
    assert config.peer_sites() == ("SFO", "LON")


def test_relays_that_meet_at_routers_need_no_port(load: Load) -> None:
    bridge = "{routers: [router-a:7900, router-b:7900], peers: {SFO: [router-a:7900, router-b:7900], LON: [router-a:7900]}}"
    config = load(f"site: NYC\nrelay: {{bridge: {bridge}}}")
    assert config.has_bridge()
    assert config.relay_layer().gateway.peers["LON"] == (Physical("router-a", 7900),), "a router may be that of several sites"


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "http://127.0.0.1:7800"), ("::", "http://[::1]:7800"), ("fd00::7", "http://[fd00::7]:7800")],
)
def test_the_url_of_a_node_is_usable_on_its_machine(host: str, url: str) -> None:
    assert HttpSettings(Physical(host, 7800)).url() == url

"""The mutants of what a node shows and lets in, by the rows of the checklist in docs/security.md."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

DAEMON, HEALTH = "relay/node/daemon.py", "relay/node/http/health.py"
RUNNING = "tests/relay/node/test_daemon.py"
HTTP, LIMITS, TOKEN = (f"tests/relay/node/http/test_{each}.py" for each in ("http", "limits", "token"))
FILES, ROTATED = "tests/relay/keys/test_files.py", "tests/relay/node/test_secured_nodes.py"


def _unguarded(trap: str, why: str, file: str, snippet: str, replacement: str, *stories: str) -> Mutant:
    return Mutant(trap, why, (Edit(file, snippet, replacement),), stories)


NODE = (
    _unguarded(
        "C1-unawares",
        "a node without keys starts without being told that it is to be insecure",
        "relay/cli/member.py",
        "    if not config.security.insecure and not config.security.keys:\n",
        "    if False:\n",
        "tests/relay/cli/test_keygen.py::test_a_node_wants_keys_or_to_be_insecure_and_not_both",
    ),
    _unguarded(
        "C1-banner",
        "the log does not say that a node is insecure",
        DAEMON,
        '            self._log.warning("insecure: whoever reaches the ports can read and send")\n',
        "            pass\n",
        f"{RUNNING}::test_a_signal_ends_a_node_that_still_joins",
    ),
    _unguarded(
        "C1-health",
        "health does not say that a node is insecure",
        HEALTH,
        r'"alive\n" if health.is_secure else "alive, insecure\n"',
        r'"alive\n"',
        f"{HTTP}::test_health_says_that_a_node_is_insecure",
    ),
    _unguarded(
        "C1-health-arrives",
        "health is not told that the node is insecure",
        DAEMON,
        "is_secure=not config.security.insecure,",
        "is_secure=True,",
        f"{RUNNING}::test_over_http_a_node_tells_the_same_as_over_its_socket",
    ),
    _unguarded(
        "C1-status",
        "the status says of every node that it is secure",
        DAEMON,
        "        secure = not config.security.insecure\n",
        "        secure = True\n",
        f"{RUNNING}::test_lines_in_are_messages_out_and_a_signal_leaves",
    ),
    _unguarded(
        "C1-metric",
        "no metric says that a node is insecure",
        "relay/node/http/metrics.py",
        '        not status["secure"],\n',
        "        False,\n",
        f"{HTTP}::test_metrics_tell_views_role_links_lag_queues_drops_and_retransmissions",
    ),
    _unguarded(
        "C1-said",
        "members that are secured otherwise are told to nobody",
        "relay/node/foreign_datagrams.py",
        "                self._seen[reason] = (count, now)\n",
        "                pass\n",
        "tests/relay/node/test_site_keys.py::test_each_kind_of_foreign_datagram_is_told_while_they_come_and_a_while_longer",
        f"{ROTATED}::test_nodes_with_keys_are_a_site_and_one_without_is_outside_and_both_say_so",
    ),
    _unguarded(
        "C18-http",
        "one address takes all connections to HTTP",
        "relay/node/http/server.py",
        "        if self._open[host] >= CONNECTIONS_EACH_MAX:\n",
        "        if False:\n",
        f"{LIMITS}::test_one_address_leaves_room_for_others",
    ),
    _unguarded(
        "C18-http-all",
        "HTTP has no bound on connections",
        "relay/node/http/server.py",
        "        if self._open.total() >= CONNECTIONS_MAX:\n",
        "        if False:\n",
        f"{HTTP}::test_one_connection_too_many_is_told_so_and_gets_in_when_another_ends",
    ),
    _unguarded(
        "C18-http-answer",
        "a client that closes while it is answered ends the node",
        "relay/node/http/guard.py",
        "            except trio.BusyResourceError as error:",
        "            except trio.ClosedResourceError as error:",
        f"{LIMITS}::test_what_is_sent_while_another_task_ends_the_direction_fails_and_ends_no_node",
    ),
    _unguarded(
        "C19-half-ring",
        "a key ring that is half written ends the node",
        "relay/node/site_keys.py",
        "        except ConfigurationError as error:\n",
        "        except FloatingPointError as error:\n",
        "tests/relay/node/test_site_keys.py::test_a_changed_file_is_read_once_and_a_damaged_one_changes_nothing",
    ),
    _unguarded(
        "C19-warning",
        "what will not work soon is an error in the log",
        DAEMON,
        "                    self._log.warning(warning)\n",
        "                    self._log.error(warning)\n",
        "tests/relay/node/test_watch_problems.py::test_what_will_not_work_soon_is_a_warning_and_an_error_only_once_it_does_not",
    ),
    _unguarded(
        "C21-others",
        "a secret that everybody can read is used",
        "relay/keys/files.py",
        "    if mode & stat.S_IROTH:\n",
        "    if False:\n",
        f"{FILES}::test_a_file_that_others_had_access_to_is_refused",
    ),
    _unguarded(
        "C21-mode",
        "secrets are written so that everybody can read them",
        "relay/keys/files.py",
        "SECRET_MODE = 0o600",
        "SECRET_MODE = 0o644",
        f"{FILES}::test_only_the_owner_can_read_what_is_written_whatever_the_umask",
    ),
    _unguarded(
        "C21-shown",
        "a key is shown wherever a ring is",
        "sitestack/seal/key_ring.py",
        "    secret: bytes = field(repr=False)\n",
        "    secret: bytes\n",
        "tests/sitestack/seal/test_key_ring.py::test_neither_key_nor_ring_shows_the_secret",
    ),
    _unguarded(
        "C21-logged",
        "the log says which keys were read",
        "relay/node/channel.py",
        "keys=[each.hex() for each in ring.keys])",
        "keys=[each.secret.hex() for each in ring.keys.values()])",
        f"{ROTATED}::test_keys_change_while_lines_are_published",
    ),
    _unguarded(
        "C23-token",
        "status and metrics are for everybody who reaches the port",
        "relay/node/http/access.py",
        "            if not self.may_read(request):\n",
        "            if False:\n",
        f"{TOKEN}::test_without_the_token_a_node_tells_whether_it_is_alive_and_ready_and_nothing_else",
    ),
    _unguarded(
        "C23-elsewhere",
        "whoever can be reached from elsewhere needs no token",
        "relay/node/http/token.py",
        "    if not is_loopback(config.http.bind.host) and not config.security.insecure:\n",
        "    if False:\n",
        f"{TOKEN}::test_who_can_be_reached_from_elsewhere_needs_a_token_or_has_to_be_insecure",
    ),
    _unguarded(
        "C23-socket",
        "other users of the machine reach the status socket",
        "relay/node/status_socket.py",
        "    before = os.umask(0o177)\n",
        "    before = os.umask(0)\n",
        "tests/relay/node/test_status_socket.py::test_only_its_user_may_connect",
    ),
    _unguarded(
        "C23-ports",
        "members are reached at every address of their machine, not at that of their interface",
        "sitestack/transport/ports.py",
        "        sock.bind((host, port))\n",
        '        sock.bind(("", port))\n',
        f"{ROTATED}::test_nodes_with_keys_are_a_site_and_one_without_is_outside_and_both_say_so",
    ),
    _unguarded(
        "C25-journal",
        "a name is in a journal's lines as it was said",
        "relay/journal/canonical.py",
        'separators=(",", ":"))',
        'separators=(",", ":"), ensure_ascii=False)',
        "tests/relay/journal/test_canonical.py::test_no_name_can_forge_a_line",
    ),
    _unguarded(
        "C25-terminal",
        "what others say steers the terminal that shows the log",
        "relay/node/logs.py",
        "[escape_texts, structlog.dev.ConsoleRenderer()]",
        "[structlog.dev.ConsoleRenderer()]",
        "tests/relay/node/test_logs.py::test_on_a_terminal_no_character_is_an_order",
    ),
)

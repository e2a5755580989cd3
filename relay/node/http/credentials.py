"""Tokens and certificate of a process that serves HTTP, which SIGHUP rereads."""

from __future__ import annotations

import ssl
from pathlib import Path

import structlog

from relay.keys.files import read_secret
from relay.node.config.settings import HttpSettings, NodeConfig
from relay.node.http.token import required_tokens
from sitestack.model.errors import ConfigurationError


class Credentials:
    """Raises ConfigurationError if a file is unreadable, or a required token missing."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        #: None: any client may do everything.
        self.tokens = required_tokens(config)
        #: None: HTTP without TLS.
        self.tls = _make_tls(config.http) if config.http.certificate else None

    def reread(self) -> None:
        """Read the files again. An invalid file is logged and changes nothing."""
        try:
            found = Credentials(self._config)
            if self.tls is not None:
                _load(self.tls, self._config.http)
        except ConfigurationError as error:
            structlog.get_logger().error("http credentials not reloaded", why=str(error))
            return
        if self.tokens is not None and found.tokens is not None:
            self.tokens.replace(found.tokens)


def _make_tls(http: HttpSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # TLS 1.2 or newer
    context.set_alpn_protocols(["http/1.1"])
    _load(context, http)
    return context


def _load(context: ssl.SSLContext, http: HttpSettings) -> None:
    try:
        read_secret(Path(http.private_key))
    except ConfigurationError as error:
        raise ConfigurationError(f"http.private_key: {error}") from error.__cause__
    try:
        context.load_cert_chain(http.certificate, http.private_key, "")  # else it asks a terminal for the password
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"http.certificate: {http.certificate} and its private key cannot be used ({error})."
        ) from error

"""The trio shell of one process: channel, bridge, daemon, configuration, log, status, HTTP."""

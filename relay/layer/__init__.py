"""RELAY: between Batching and Sequencer; every member runs it over the same stream.

Procedures of JGroups' design document, and the code of each:

    RELAY.up(msg): multicast of this site   layer/layer.py          RelayLayer.message, at every member
    RELAY.up(msg): DISSEMINATE, VIEW        layer/layer.py          RelayLayer.entry, admitted by replica/replica.py
    RELAY.up(msg): FORWARD of a unicast     unicast/forwarding.py   UnicastRoutes.up
    RELAY.down(msg), forwardToCoord(msg)    layer/layer.py          RelayLayer.down, then UnicastRoutes.send
    forward(buf)                            gateway/sender.py       LinkSender.next_frame, in Gateway.turn
    Receive message M from TCP channel      gateway/peering.py      Peering.received
    putOnLocalCluster(M)                    gateway/injector.py     Injector.cast; RelayLayer.entry makes the proxy
    Becoming, ceasing to be coordinator     gateway/gateway.py      Gateway.installed
    Local view changed                      layer/layer.py          RelayLayer.view_installed
    Remote view (RV) changed                gateway/receiver.py     LinkReceiver.admit
    Update(RV, GV)                          replica/replica.py      Replica.update
    Bridge view changed                     gateway/grace.py        Grace
"""

from __future__ import annotations

from relay.layer.layer import RelayConfig, RelayLayer

__all__ = ["RelayConfig", "RelayLayer"]

"""The attacker of a hostile drill: a separate process on the network that is no member.

It attacks only the drill's members. Every loop is bounded in time and in packets.
"""

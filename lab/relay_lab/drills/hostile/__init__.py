"""The attacker of a hostile drill: a separate process on the network that is no member.

It attacks only the drill's members. Every loop is bounded in time and in packets.

target.py     its orders and its report
forge.py      datagrams of no member: every header, and ones that are expensive to read
lan.py        the sockets on the network of a site
datagrams.py  the attacks on a site by datagrams
bridge.py     the attacks on its relay by connections
liar.py       the attack of a linked site
attack.py     starts the process for a drill, and is its program
evidence.py   measurements during attacks, and their limits
"""

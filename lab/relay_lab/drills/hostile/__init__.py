"""The attacker of a hostile drill: a process of its own that is on the network, and is no member.

It is told whom to attack, and attacks nobody else: the members of the drill's own sites, at the addresses that the drill has
given them. Every loop is bounded in time and in packets.

    target.py     what it is told, and what it tells
    forge.py      datagrams of no member: every header in every form, and ones that cost their reader more than their sender
    lan.py        the sockets on the network of a site
    datagrams.py  the attacks on a site by datagrams
    bridge.py     the attacks on its relay by connections
    attack.py     starts the process for a drill, and is its program
    evidence.py   what a drill measures meanwhile, and what it must not find
"""

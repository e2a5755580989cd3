"""Building blocks of tests.

* `addresses.py`, `messages.py`: addresses with names, and frames.
* `wire.py`, `group.py`: members with the layers that a test names, over a wire in virtual time. A whole test:

      group = Group("AB", lambda local: [NakAck(local, NakAckConfig())], faults=Faults(loss=0.9))
      group.install(view_of(1, "AB"))
      group.down("A", frame_of("A", 1))
      group.run(seconds=60.0)
      assert group["B"].firsts("A") == [1]

* `casters.py`, `talkers.py`, `hosts.py`, `ordered.py`: such groups for NAKACK, UNICAST, DISCOVERY and SEQUENCER.
* `relay/`: sites of relay layers, the bridges between them, and a puppet that speaks the bridge protocol by hand.
* `stories.py`, `linked_sites.py`: whole processes in the simulator, one site or two, and golden transcripts.
* `channels.py`, `sockets.py`: channels over a network in memory, and helpers for real sockets.
* `journals.py`, `correct_run.py`: hand-written journals, and runs without a fault.
"""

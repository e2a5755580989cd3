"""What tests are made of, each thing once: addresses, groups over a wire in virtual time, sites and bridges, journals.

A layer is tested in a group of members that have it, and as many of its neighbours as the test wants:

    def test_what_was_lost_is_asked_for() -> None:
        group = Group("AB", lambda local: [NakAck(local, NakAckConfig())])
        group.install(view_of(1, "AB"))
        group.wire.rule = lose(1)
        group.down("A", frame_of("A", 1))
        group.run(1.0)
        assert group["B"].firsts("A") == [1]
"""

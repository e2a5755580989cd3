"""Who survived a run, found out from journals alone."""

from __future__ import annotations

from sitestack.promises import find_ending
from tests.harness.journals import Told


def two_sites_and_one_is_away_for_a_while(*, comes_back: bool) -> tuple[Told, Told]:
    """A of NYC loses sight of D of SFO shortly before the end, and both keep sending."""
    a, d = Told("NYC", "A").view("1A", "A"), Told("SFO", "D").view("1D", "D", lineage="1D")
    for each in (a, d):
        each.global_view({"NYC": "1A", "SFO": "1D"}, "NYC:A SFO:D")
    a.global_view({"NYC": "1A"}, "NYC:A", down=["SFO"])
    if comes_back:
        a.global_view({"NYC": "1A", "SFO": "1D"}, "NYC:A SFO:D")
    a.send(1).deliver("A", 1)
    return a.stop(), d.stop()


def test_who_is_seen_again_had_not_left() -> None:
    """As when a site is taken offline and online again, or its link fails, within seconds of the end."""
    a, d = two_sites_and_one_is_away_for_a_while(comes_back=True)
    ending = find_ending({each.uuid: each.records for each in (a, d)})
    assert ending.lengths == {each.uuid: len(each.records) for each in (a, d)}


def test_who_is_gone_for_good_before_something_is_sent_had_left() -> None:
    a, d = two_sites_and_one_is_away_for_a_while(comes_back=False)
    ending = find_ending({each.uuid: each.records for each in (a, d)})
    assert ending.lengths == {a.uuid: len(a.records)}

"""A member that reported a departed leader receives that leader's commits."""

from __future__ import annotations

from dataclasses import replace

from sitestack.layers.membership.headers import Commit
from sitestack.layers.membership.promises import Promises
from sitestack.layers.membership.reminders import Reminders
from sitestack.model.frame import Frame
from sitestack.model.view import View
from sitestack.stack.layer import Down, Effect
from tests.harness.addresses import address, view_id, view_of

A, B, C, D = map(address, "ABCD")
OLD, NEW = view_of(1, "ABCD"), replace(view_of(2, "BCD"), id=view_id("2A"))


def at(view: View) -> tuple[Promises, Reminders]:
    member = Promises()
    member.install(view)
    return member, Reminders(B, member)


def commits(*targets: str) -> list[Effect]:
    return [Down(Frame(B, address(name), (Commit(NEW.id),))) for name in targets]


def test_who_reports_a_member_that_is_not_in_the_view_any_more_has_not_heard_the_commit() -> None:
    _, reminders = at(NEW)
    assert reminders.reported(D, (A,)) == commits("D")
    assert reminders.reported(D, (C,)) == []
    assert reminders.reported(A, (A,)) == [], "A is no member"


def test_who_has_reported_before_is_told_once_the_commit_is_heard() -> None:
    member, reminders = at(OLD)
    assert [reminders.reported(each, (A,)) for each in (D, D, A)] == [[], [], []]
    member.install(NEW)
    assert reminders.view_installed(NEW) == commits("D")
    assert reminders.view_installed(NEW) == []


def test_the_leader_of_the_view_tells_its_commit_anyway() -> None:
    member, reminders = at(OLD)
    reminders.reported(D, (A,))
    own = view_of(2, "BCD")
    member.install(own)
    assert reminders.view_installed(own) == []

"""The contents of a report that do not depend on its format. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

from relay_lab.drills.plan import MEMBER_VERBS, Drill, LinkVerb
from relay_lab.drills.result import DrillResult, Verdict, overall, summary

_VERBS: tuple[str, ...] = (*MEMBER_VERBS, *get_args(LinkVerb))


class Fact(NamedTuple):
    """A figure and its meaning."""

    name: str
    value: str


def headline(results: Sequence[DrillResult], aborted: Sequence[str]) -> tuple[bool, str]:
    """Whether all runs passed, and a sentence that says so."""
    verdict = overall(results, aborted)
    passed = bool(results) and verdict == "pass"
    runs = len(results) + len(aborted)
    failed = len(aborted) + sum(result.verdict == "fail" for result in results)
    if passed:
        return True, f"{'The run' if runs == 1 else f'All {runs} runs'} went as the drill says."
    if verdict == "not exercised":
        return False, "Nothing was wrong, but not everything was exercised."
    return False, "The run failed." if runs == 1 else f"{failed} of {runs} runs failed."


def figures(drill: Drill, results: Sequence[DrillResult], aborted: Sequence[str]) -> list[Fact]:
    """The figures over all runs."""
    total = summary(drill, results, aborted)
    facts = [Fact("messages sent", f"{total['sent']:,}"), Fact("messages delivered", f"{sum(total['delivered'].values()):,}")]
    facts += [Fact(name, f"{total[name]:,}") for name in ("lost", "duplicated", "reordered")]
    facts.append(Fact("declared lost (gaps)", f"{total['gaps']:,}"))
    several = len(results) > 1
    if total["failover_s"] is not None:
        facts.append(Fact(f"silence at the other site{', median' if several else ''}", f"{total['failover_s']:.3f} s"))
        facts += [Fact("silence, worst", f"{total['failover_worst_s']:.3f} s")] if several else []
    if total["own_silence_worst_s"] is not None:
        facts.append(Fact(f"silence of the own site{', worst' if several else ''}", f"{total['own_silence_worst_s']:.3f} s"))
    if total["quiet_s"] is not None:
        facts.append(Fact(f"at rest after{', at worst' if several else ''}", f"{total['quiet_s']:.2f} s"))
    return facts


def shown(verdict: Verdict) -> str:
    """A verdict as a report shows it: what is wrong is loud."""
    return verdict if verdict == "pass" else verdict.upper()


#: The heads of the columns of `runs`.
RUN_COLUMNS = ("seed", "verdict", "lost", "duplicated", "reordered", "gaps", "silence s", "at rest after s")


def runs(results: Sequence[DrillResult]) -> list[tuple[str, ...]]:
    """A row for each run; none for a single run, whose figures say the same."""
    if len(results) < 2:
        return []
    return [
        (
            str(result.seed),
            shown(result.verdict),
            *[f"{number:,}" for number in (result.lost, result.duplicated, result.reordered, result.gaps)],
            "-" if result.failover_s is None else f"{result.failover_s:.3f}",
            f"{result.quiet_s:.2f}",
        )
        for result in results
    ]


def means(results: Sequence[DrillResult]) -> list[str]:
    """By what means harm was done, each named once."""
    return list(dict.fromkeys(each for result in results for each in result.means))


def harm(result: DrillResult) -> list[tuple[float, str]]:
    """Time and action of each harm: the timeline without what was only observed."""
    return [(each.at_s, each.what) for each in result.timeline if each.what.split()[0] in _VERBS]


def silence(result: DrillResult) -> str:
    """A sentence on the longest silence."""
    found = result.silence
    if found is None:
        return "No member waited for the other site."
    when = f"from {found.begin_s:.2f} s to {found.end_s:.2f} s"
    return f"Longest silence: {found.member} heard nothing of {found.site} for {found.seconds:.3f} s, {when}."

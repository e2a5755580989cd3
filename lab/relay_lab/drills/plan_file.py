"""A drill file, read into the classes of a plan; every mistake becomes a sentence with the path of its key. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from relay.node.config.config_file import fill_in
from relay.node.config.config_values import Reader
from relay_lab.drills.plan import (
    ATTACK_VERBS,
    GRADED,
    MEMBER_VERBS,
    Action,
    Drill,
    parse_link,
    parse_place,
    seat_members,
)


def read_drill(plain: Any) -> tuple[Drill, list[str]]:
    reader = Reader({})
    config = plain.get("config") if type(plain) is dict else None
    rest = {key: value for key, value in plain.items() if key != "config"} if type(plain) is dict else plain
    drill = reader.record(Drill, rest)
    problems = [*reader.problems, *([] if reader.problems else _problems(drill))]
    if config is not None:
        problems += [f"config.{problem}" for problem in fill_in(config)[1]]
        drill = replace(drill, config=config if type(config) is dict else {})
    return drill, problems


def _problems(drill: Drill) -> Iterator[str]:
    if not drill.name:
        yield "name: the drill has no name."
    if len(drill.sites) < 2 or len(set(drill.sites)) < len(drill.sites):
        yield "sites: must name at least two different sites."
        return
    if not 0 < drill.members <= 26:
        yield "members: must be from 1 to 26."
        return
    if min(drill.load.rate, drill.load.message_bytes, drill.load.seconds) <= 0:
        yield "load: rate, message_bytes and seconds must be more than 0."
    for place in drill.verdict.gaps_max:
        if not _is_member_or_site(place, drill):
            yield f"verdict.gaps_max: there is no {place!r}; a member is SITE.NAME, and a site stands for each of its members."
    for index, action in enumerate(drill.method):
        for problem in _action_problems(drill, action):
            yield f"method[{index}]: {problem}"


def _action_problems(drill: Drill, action: Action) -> Iterator[str]:
    if min(action.at_s, action.spread_s, action.amount, action.for_s) < 0:
        yield "times and amounts must not be negative."
    if action.after_load and action.at_s < drill.load.seconds:
        yield f"after_load: at_s must be at least {drill.load.seconds:g}, load.seconds."
    is_attack = action.do in ATTACK_VERBS
    if is_attack and not action.for_s:
        yield f"{action.do} needs for_s, the seconds that it lasts."
    if (action.for_s or action.key_of) and not is_attack:
        yield f"for_s and key_of are for attacks, which {action.do} is not."
    if action.do == "lie" and not action.key_of:
        yield "lie needs key_of, the linked site that lies."
    if action.key_of in drill.sites:
        yield f"key_of: {action.key_of} is a site of the drill; its members trust every holder of its key."
    try:
        if is_attack:
            if action.link or action.target not in drill.sites:
                yield f"{action.do} needs a target, one site."
        elif action.do in MEMBER_VERBS:
            if action.link or not parse_place(action.target, drill.sites, drill.members).who:
                yield f"{action.do} needs a target, one member."
        elif action.target:
            yield f"{action.do} needs a link, not a target."
        else:
            parse_link(action.link, drill.sites, drill.members)
    except ValueError as error:
        yield str(error)
    if action.do in GRADED and not action.amount:
        yield f"{action.do} needs an amount above 0; without one it has no effect."
    if action.do in ("lose", "duplicate", "reorder") and action.amount > 1:
        yield f"{action.do} takes a probability from 0 to 1."


def _is_member_or_site(place: str, drill: Drill) -> bool:
    members = [f"{seat.site}.{seat.name}" for seat in seat_members(drill.sites, drill.members)]
    return place in drill.sites or place in members

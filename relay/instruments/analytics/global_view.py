"""G1 to G4: the global view is the union of the sites' views, equal everywhere, and moves on; and how fast it converges."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from relay.instruments.analytics.facts import vid_text
from relay.instruments.analytics.findings import text, to_findings, unite


def measure_convergence(events: DataFrame) -> DataFrame:
    """A row a global view: its `vector`, its `members`, at how many `processes` it was in force, and the wall clocks of the
    first and of the last of them to get it, `spread_ms` apart.
    """
    seen = (
        _global_views(events)
        .groupBy("vector", "uuid")
        .agg(F.min("wall_ns").alias("wall_ns"), F.first(F.size("members")).alias("members"))
    )
    return (
        seen.groupBy("vector")
        .agg(
            F.first("members").alias("members"),
            F.count("*").alias("processes"),
            F.min("wall_ns").alias("first_ns"),
            F.max("wall_ns").alias("last_ns"),
        )
        .withColumn("spread_ms", (F.col("last_ns") - F.col("first_ns")) / 1e6)
    )


def find_broken_global_views(events: DataFrame, stays: DataFrame, processes: DataFrame) -> DataFrame:
    """G1, G2, G3: what holds at any time."""
    views = _global_views(events)
    return unite(*_find_false_unions(views, stays), _find_unequal(views, processes), _find_backward(views, stays))


def find_unconverged(events: DataFrame, stays: DataFrame, processes: DataFrame) -> DataFrame:
    """G4, quiescent runs. All survivors end with one global view, whose members are exactly the survivors; those of a site,
    also where there is no global view, end with one site view of exactly its survivors.
    """
    survivors = processes.where("fate = 'running'").select(
        "uuid", "site", "label", F.struct("site", "node", "uuid").alias("who")
    )
    last_view = stays.groupBy("uuid").agg(F.max_by(F.struct("vid", "members"), "stay").alias("view")).select("uuid", "view.*")
    views = _global_views(events)
    last_global = (
        views.groupBy("uuid")
        .agg(F.max_by(F.struct("gvec", "members", "vector"), "position").alias("view"))
        .select("uuid", "view.*")
    )
    return unite(*_find_unsettled_sites(survivors, last_view), *_find_unsettled_whole(survivors, last_global))


def _find_unsettled_sites(survivors: DataFrame, last_view: DataFrame) -> list[DataFrame]:
    in_site = Window.partitionBy("site")
    ended = survivors.withColumn("expected", F.collect_set("uuid").over(in_site)).join(last_view, "uuid", "left")
    first = in_site.orderBy(F.col("vid").isNull(), "who")
    compared = ended.withColumns({"first_vid": F.first("vid").over(first), "other": F.first("label").over(first)})
    ends = text("ends in ", vid_text("vid"))
    differs = text(ends, ", whose members are not exactly the survivors of ", F.col("site"))
    elsewhere = text(ends, ", ", F.col("other"), " in ", vid_text("first_vid"))
    return [
        to_findings(ended.where("vid is null"), "G4", "none", text("never installed a view")),
        to_findings(ended.where(_differ("members", "expected")), "G4", "site members", differs),
        to_findings(compared.where("vid != first_vid"), "G4", "site view", elsewhere),
    ]


def _find_unsettled_whole(survivors: DataFrame, last_global: DataFrame) -> list[DataFrame]:
    everybody = survivors.groupBy().agg(F.collect_set(F.struct("site", "uuid")).alias("expected"))
    ended = survivors.join(last_global, "uuid", "left").crossJoin(F.broadcast(everybody))
    whole = Window.partitionBy(F.lit(0))
    first = whole.orderBy(F.col("vector").isNull(), "who")
    compared = ended.withColumns(
        {
            "first_vector": F.first("vector").over(first),
            "other": F.first("label").over(first),
            "known": F.count("vector").over(whole),
        }
    )
    ends = text("ends with ", F.col("vector"))
    lacks = text("has no global view, ", F.col("other"), " has one")
    return [
        to_findings(compared.where("vector is null and known > 0"), "G4", "none", lacks),
        to_findings(
            ended.where(_differ("members", "expected")), "G4", "members", text(ends, ", which differs from the survivors")
        ),
        to_findings(
            compared.where("vector != first_vector"),
            "G4",
            "vector",
            text(ends, ", ", F.col("other"), " with ", F.col("first_vector")),
        ),
    ]


def _global_views(events: DataFrame) -> DataFrame:
    """Global views with `members` as (site, uuid) and `vector` in words, which is equal when the vectors are."""
    members = F.transform("members", lambda member: F.struct(member["site"].alias("site"), member["uuid"].alias("uuid")))
    views = events.where("kind = 'gview'").select(
        "uuid", "position", "wall_ns", "gvec", F.coalesce("down", F.array()).alias("down"), members.alias("members")
    )
    return views.withColumn("vector", _vector_text(F.map_entries("gvec")))


def _vector_text(entries: Column) -> Column:
    component = F.transform(
        F.array_sort(entries),
        lambda entry: F.concat(
            entry["key"],
            F.lit(": "),
            F.substring(entry["value"]["creator"], 1, 8),
            F.lit("|"),
            entry["value"]["counter"].cast("string"),
        ),
    )
    return F.concat(F.lit("{"), F.array_join(component, ", "), F.lit("}"))


def _components(views: DataFrame) -> DataFrame:
    """A row a site of each global view, with the members of that site."""
    exploded = views.select("uuid", "position", "vector", "members", "down", F.explode("gvec").alias("home", "vid"))
    own = F.transform(F.expr("filter(members, member -> member.site = home)"), lambda member: member["uuid"])
    return exploded.withColumns({"own": own, "is_down": F.expr("array_contains(down, home)")})


def _find_false_unions(views: DataFrame, stays: DataFrame) -> list[DataFrame]:
    """G1. Views that no process journaled cannot be compared. A site that is down may keep its component, without members."""
    known = stays.groupBy(F.col("site").alias("home"), "vid").agg(F.first("members").alias("known"))
    parts = _components(views).join(F.broadcast(known), ["home", "vid"], "left")
    wanted = F.when(F.col("is_down"), F.array().cast("array<string>")).otherwise(F.coalesce("known", "own"))
    differs = parts.where(F.col("own") != wanted)
    what = text(F.col("vector"), ": the members of ", F.col("home"), " are not those of ", vid_text("vid"))
    twice = views.where(F.size(F.array_distinct(_uuids())) < F.size("members"))
    homes = F.transform("members", lambda member: member["site"])
    strangers = views.where(F.size(F.array_except(homes, F.map_keys("gvec"))) > 0)
    return [
        to_findings(differs, "G1", F.col("home"), what),
        to_findings(twice, "G1", "twice", text(F.col("vector"), ": a member is in it twice")),
        to_findings(strangers, "G1", "strangers", text(F.col("vector"), ": has members of a site without a component")),
    ]


def _find_unequal(views: DataFrame, processes: DataFrame) -> DataFrame:
    """G2. Equal vectors, of the sites that are not down, mean equal ordered member lists."""
    known = F.broadcast(processes.select("uuid", F.struct("site", "node", "uuid").alias("who"), "label"))
    live = _vector_text(F.expr("filter(map_entries(gvec), entry -> not array_contains(down, entry.key))"))
    first = Window.partitionBy("live").orderBy("who", "position")
    compared = (
        views.join(known, "uuid")
        .withColumn("live", live)
        .withColumns({"known": F.first("members").over(first), "other": F.first("label").over(first)})
    )
    what = text(F.col("live"), " has other members here than at ", F.col("other"))
    return to_findings(compared.where(F.col("members") != F.col("known")), "G2", "members", what)


def _find_backward(views: DataFrame, stays: DataFrame) -> DataFrame:
    """G3. Per process no component goes backwards within a lineage of its site, and two lineages do not take turns.

    When one part of a split site is lost for good, the other part, which stands for the site again from then on, may have
    counted less; once. Components that nobody who left a journal installed are not compared.
    """
    lineages = stays.groupBy(F.col("site").alias("home"), "vid").agg(F.min("lineage").alias("lineage"))
    shown = _components(views).where("not is_down").join(F.broadcast(lineages), ["home", "vid"])
    ordered = Window.partitionBy("uuid", "home").orderBy("position")
    in_lineage = Window.partitionBy("uuid", "home", "lineage").orderBy("position")
    visits = Window.partitionBy("uuid", "home", "vid").orderBy("position")
    so_far = (Window.unboundedPreceding, -1)
    compared = (
        shown.withColumns(
            {"previous": F.lag("vid").over(ordered), "highest": F.max("vid").over(in_lineage.rowsBetween(*so_far))}
        )
        .withColumn("comes", F.when(F.col("previous").eqNullSafe(F.col("vid")), 0).otherwise(1))
        .withColumn("visit", F.sum("comes").over(visits.rowsBetween(Window.unboundedPreceding, 0)))
    )
    back = compared.where("vid < highest or (comes = 1 and visit > 2)")
    what = text(F.col("home"), " went from ", vid_text("previous"), " back to ", vid_text("vid"))
    return to_findings(back, "G3", F.col("home"), what)


def _uuids() -> Column:
    return F.transform("members", lambda member: member["uuid"])


def _differ(one: str, other: str) -> Column:
    """Whether two arrays hold different sets; null when one of them is."""
    return (F.size(F.array_except(one, other)) > 0) | (F.size(F.array_except(other, one)) > 0)

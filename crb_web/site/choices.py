"""What stands in a site where the server has a form: links to the choices that the site holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from crb_web.site.addresses import Target
from crb_web.site.markup import Form
from crb_web.site.plan import SitePlan, SweepPlan

__all__ = ["Choice", "Group", "Option", "choice"]


@dataclass(frozen=True)
class Option:
    """One choice: its text, the server's address of it, and whether it is the page itself."""

    text: str
    address: str
    is_here: bool = False


@dataclass(frozen=True)
class Group:
    title: str
    options: tuple[Option, ...]


@dataclass(frozen=True)
class Choice:
    """Groups of choices, and what only a server can do."""

    title: str
    groups: tuple[Group, ...]
    missing: str


def choice(plan: SitePlan, target: Target, form: Form, *, too_many: bool) -> Choice | None:
    """What takes the place of a form; None for nothing. ``too_many``: the findings of a pull request fill pages."""
    groups: Iterator[Group]
    name = form.attributes.get("id")
    if target.page == "board" and name == "filters":
        title, groups = "Leaderboards of this site", _of_board(plan, target)
        missing = "Filters, other review preferences and other orders"
    elif (target.page == "board" and name == "compare") or target.page == "compare":
        title, groups = "Comparisons of this site", _of_pairs(target)
        missing = "Other pairs, three or four builds at once, and comparisons under filters"
    elif target.page == "pull request":
        title, groups = "Pages of this pull request", _of_pull_request(target, too_many)
        missing = "Choosing agents, rounds and what the judge says"
    elif target.page == "trials":
        title, groups = "Trials of this site", iter(())
        missing = "Choosing trials by outcome, agent, pull request or round"
    else:
        return None
    return Choice(title, tuple(each for each in groups if each.options), missing)


def _of_board(plan: SitePlan, target: Target) -> Iterator[Group]:
    view, sweep = target.view, target.sweep
    if view is None or sweep is None:
        return
    sweeps = [each for each in plan.sweeps if each.judges]
    if len(sweeps) > 1:
        yield Group(
            "Sweep",
            tuple(
                Option(
                    f"{each.record['name']} ({each.record['corpus']}, {each.record['protocol']})",
                    f"/?{each.views[each.judges[0].judge_id][0].state}",
                    each.id == sweep.id,
                )
                for each in sweeps
            ),
        )
    judges = []
    for each in sweep.judges:
        same = sweep.view(view.query, each.judge_id) or sweep.views[each.judge_id][0]
        judges.append(Option(each.name, f"/?{same.state}", each.judge_id == target.judge))
    yield Group("Judge", tuple(judges))
    views = sweep.views[target.judge]
    for title in dict.fromkeys(each.group for each in views):
        yield Group(
            title[:1].upper() + title[1:],
            tuple(
                Option(f"{each.title} (beta {each.query.beta:g})", f"/?{each.state}", each == view)
                for each in views
                if each.group == title
            ),
        )


def _of_pairs(target: Target) -> Iterator[Group]:
    sweep = target.sweep
    if sweep is None:
        return
    agents = _agents(sweep)
    options = []
    for pair in sweep.pairs[target.judge]:
        query = urlencode({"sweep": sweep.id, "judge": target.judge, "build": pair}, doseq=True)
        here = target.page == "compare" and target.address.endswith(urlencode({"build": pair}, doseq=True))
        options.append(Option(" and ".join(agents[each] for each in pair), f"/compare?{query}", here))
    yield Group("Compare", tuple(options))


def _of_pull_request(target: Target, too_many: bool) -> Iterator[Group]:
    sweep = target.sweep
    if sweep is None:
        return
    place = f"/sweeps/{sweep.id}/pull-requests/{quote(target.key, safe='')}"
    yield Group(
        "Judge",
        tuple(
            Option(each.name, f"{place}?{urlencode({'judge': each.judge_id})}", each.judge_id == target.judge)
            for each in sweep.judges
        ),
    )
    if too_many:
        yield Group(
            "Findings of",
            tuple(
                Option(agent, f"{place}?{urlencode({'judge': target.judge, 'build': build})}", build == target.build)
                for build, agent in _agents(sweep).items()
            ),
        )


def _agents(sweep: SweepPlan) -> dict[str, str]:
    """By build what it is called: its agent, with the build where that name is there twice."""
    builds = {each["build"]: each["agent"] for each in sweep.record["builds"]}
    names = list(builds.values())
    return {build: agent if names.count(agent) == 1 else f"{agent} {build}" for build, agent in builds.items()}

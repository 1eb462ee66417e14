"""Which address of the server is which file of a site.

A page is named by the SHA-256 of its address, data by that of its content; names from outside never become paths.
Addresses that mean the same are one: a sweep by name and by id, a judge that is the default, a state without defaults.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import parse_qs, quote, unquote, urlencode

from crb_core.pictures import PICTURES
from crb_web.query import BoardQuery
from crb_web.site.plan import SitePlan, SweepPlan, View, query_of

__all__ = ["CONTENTS", "INDEX", "Addresses", "Target"]

INDEX = "index.html"
CONTENTS = "contents.html"

Values: TypeAlias = Mapping[str, Sequence[str]]
Kind: TypeAlias = Literal["page", "data", "asset", "evidence"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """What an address leads to.

    ``address`` is what the server is asked for. A page has its file's ``path`` and the address of the ``data`` behind
    it; other kinds are named once their content is known, and have a ``suffix``.
    """

    kind: Kind
    address: str
    page: str = ""
    path: str = ""
    data: str = ""
    suffix: str = ""
    sweep: SweepPlan | None = None
    judge: str = ""
    view: View | None = None
    key: str = ""
    build: str = ""


class Addresses:
    """Finds the target of an address; None where the site does not hold it.

    ``too_many`` says whether a pull request has more findings under a judge than one page shows.
    """

    def __init__(self, plan: SitePlan, too_many: Callable[[str, str, str], bool]) -> None:
        self._plan = plan
        self._too_many = too_many

    def target(self, address: str) -> Target | None:
        """What an address (path and query, without a fragment) leads to."""
        path, _, query = address.partition("?")
        try:
            values = parse_qs(query, keep_blank_values=True, max_num_fields=500)
        except ValueError:
            return None
        for pattern, find in _ROUTES:
            match = pattern.fullmatch(path)
            if match is not None:
                return find(self, [unquote(each) for each in match.groups()], values)
        return None

    def pages(self, sweep: SweepPlan) -> Iterator[Target]:
        """The pages of a sweep that others lead from, judge by judge."""
        for judge in sweep.judges:
            here = {"sweep": sweep.id, "judge": judge.judge_id}
            addresses = [f"/?{view.state}" for view in sweep.views[judge.judge_id]]
            addresses += [
                f"/compare?{urlencode(here | {'build': pair}, doseq=True)}" for pair in sweep.pairs[judge.judge_id]
            ]
            addresses += [
                f"/sweeps/{sweep.id}/pull-requests/{quote(key, safe='')}?{urlencode({'judge': judge.judge_id})}"
                for key in sweep.record["pull_requests"]
            ]
            addresses.append(f"/judges/{quote(judge.judge_id, safe='')}?{urlencode({'sweep': sweep.id})}")
            yield from (found for each in addresses if (found := self.target(each)) is not None)
        for page in ("", "/trials"):
            found = self.target(f"/sweeps/{sweep.id}{page}")
            if found is not None:
                yield found

    # -- by path -------------------------------------------------------------------------------------------------------

    def _view(self, values: Values) -> View | None:
        """The view that a state means, if the site holds it."""
        query = query_of({name: each for name, each in values.items() if name != "intervals"})
        sweep = None if query is None else self._plan.sweep(query.sweep)
        judge = None if sweep is None or query is None else sweep.judge(query.judge[0] if query.judge else None)
        if query is None or sweep is None or judge is None:
            return None
        return sweep.view(query, judge)

    def _of_view(self, values: Values, page: str, address: str, data: str) -> Target | None:
        view = self._view(values)
        if view is None:
            # The newest sweep need not have a judge.
            view = self._plan.first if not values and page == "board" else None
        if view is None:
            return None
        path = INDEX if page == "board" and view == self._plan.first else ""
        return self._page(
            page, address.format(view.state), data.format(view.state), view=view, path=path, sweep=self._swept(view)
        )

    def _board(self, _: list[str], values: Values) -> Target | None:
        return self._of_view(values, "board", "/?{}&intervals=made", "/api/v1/leaderboard?{}")

    def _contents(self, _: list[str], values: Values) -> Target | None:
        path = INDEX if self._plan.first is None else CONTENTS
        return None if values else self._page("contents", "/contents", "/api/v1/sweeps", path=path)

    def _pictures(self, _: list[str], values: Values) -> Target | None:
        return self._of_view(values, "pictures", "/pictures?{}", "/api/v1/leaderboard/pictures?{}")

    def _row(self, parts: list[str], values: Values) -> Target | None:
        view = self._view({**values, "sweep": [parts[0]]})
        if view is None:
            return None
        state = view.query.encoded(sweep=None)
        address = f"/sweeps/{view.query.sweep}/rows/{quote(parts[1], safe='')}?{state}"
        data = f"/api/v1/leaderboard?{_whole(view)}&pull_requests=true"
        return self._page("row", address, data, view=view, sweep=self._swept(view))

    def _compare(self, _: list[str], values: Values) -> Target | None:
        builds = tuple(values.get("build", ()))
        view = self._view({name: each for name, each in values.items() if name != "build"})
        if view is None or not _is_plain(view):
            return None
        pairs = self._swept(view).pairs[view.query.judge[0]]
        found = next((pair for pair in pairs if set(pair) == set(builds)), None)
        if found is None:
            return None
        query = f"{view.state}&{urlencode({'build': found}, doseq=True)}"
        return self._page(
            "compare", f"/compare?{query}", f"/api/v1/compare?{query}", view=view, sweep=self._swept(view)
        )

    def _pull_request(self, parts: list[str], values: Values) -> Target | None:
        sweep = self._plan.sweep(parts[0])
        judge = None if sweep is None else sweep.judge(_one(values, "judge"))
        known = {"judge", "build", "file", "start"}
        if sweep is None or judge is None or parts[1] not in sweep.record["pull_requests"] or values.keys() - known:
            return None
        query = {"judge": judge}
        build = ""
        if "file" in values:
            query |= {name: each for name in ("file", "start") if (each := _one(values, name))}
        elif len(values.get("build", ())) == 1 and self._too_many(sweep.id, parts[1], judge):
            query["build"] = build = values["build"][0]
        key = quote(parts[1], safe="")
        return self._page(
            "pull request",
            f"/sweeps/{sweep.id}/pull-requests/{key}?{urlencode(query)}",
            f"/api/v1/pull-requests/{sweep.id}/{key}?{urlencode({'judge': judge})}",
            folder="pull-requests",
            sweep=sweep,
            judge=judge,
            key=parts[1],
            build=build,
        )

    def _sweeps(self, _: list[str], values: Values) -> Target | None:
        return None if values else self._page("sweeps", "/sweeps", "/api/v1/sweeps", path="sweeps.html")

    def _sweep(self, parts: list[str], values: Values) -> Target | None:
        sweep = self._plan.sweep(parts[0])
        if sweep is None or values:
            return None
        address = f"/sweeps/{sweep.id}"
        return self._page("sweep", address, f"/api/v1{address}/progress", sweep=sweep)

    def _heat_map(self, parts: list[str], values: Values) -> Target | None:
        sweep = self._plan.sweep(parts[0])
        if sweep is None or values.keys() - {"offset"}:
            return None
        address = f"/sweeps/{sweep.id}"
        return self._page("heat map", f"{address}/heat-map{_start(values)}", f"/api/v1{address}/progress", sweep=sweep)

    def _trials(self, parts: list[str], values: Values) -> Target | None:
        sweep = self._plan.sweep(parts[0])
        if sweep is None or values.keys() - {"offset", *_TRIAL_FILTERS}:
            return None
        chosen = [
            (name, each) for name in (*_TRIAL_FILTERS, "offset") if (each := _one(values, name)) not in {None, "0"}
        ]
        place = f"/sweeps/{sweep.id}/trials" + (f"?{urlencode(chosen)}" if chosen else "")
        return self._page("trials", place, f"/api/v1{place}", sweep=sweep)

    def _trial(self, parts: list[str], values: Values) -> Target | None:
        address = f"/trials/{int(parts[0])}"
        return (
            None if values else self._page("trial", address, f"/api/v1{address}", path=f"trials/{int(parts[0])}.html")
        )

    def _judges(self, _: list[str], values: Values) -> Target | None:
        return None if values else self._page("judges", "/judges", "/api/v1/judges", path="judges.html")

    def _judge(self, parts: list[str], values: Values) -> Target | None:
        if values.keys() - {"sweep"}:
            return None
        address = f"/judges/{quote(parts[0], safe='')}"
        sweep = self._plan.sweep(_one(values, "sweep")) if values else None
        if values and sweep is None:
            return None
        state = "" if sweep is None else "?" + urlencode({"sweep": sweep.id})
        return self._page("judge", address + state, f"/api/v1{address}", folder="judges")

    def _finding(self, parts: list[str], values: Values) -> Target | None:
        address = f"/findings/{parts[0]}"
        return None if values else self._page("finding", address, f"/api/v1{address}", folder="findings")

    def _picture(self, parts: list[str], values: Values) -> Target | None:
        name, suffix = parts
        drawn = {"theme", "narrow", "download", "intervals"}
        view = self._view({each: value for each, value in values.items() if each not in drawn})
        if view is None or name not in PICTURES:
            return None
        extra = {each: value for each in ("theme", "narrow", "download") if (value := _one(values, each))}
        made = {"intervals": "made"} if suffix in {"svg", "png"} else {}
        state = "&".join((view.state, urlencode(extra | made))) if extra | made else view.state
        return Target(kind="data", address=f"/leaderboard/{name}.{suffix}?{state}", suffix=suffix)

    def _table(self, parts: list[str], values: Values) -> Target | None:
        view = self._view(values)
        if view is None:
            return None
        # The basis chooses what a page shows; tables hold both, workbooks the pictures of one.
        state = _whole(view) if parts[0] == "csv" else view.state
        return Target(kind="data", address=f"/leaderboard.{parts[0]}?{state}", suffix=parts[0])

    def _document(self, _: list[str], values: Values) -> Target | None:
        view = self._view({name: each for name, each in values.items() if name != "pull_requests"})
        if view is None:
            return None
        extra = "&pull_requests=true" if "pull_requests" in values else ""
        return Target(kind="data", address=f"/api/v1/leaderboard?{_whole(view)}{extra}", suffix="json")

    def _other_document(self, parts: list[str], values: Values) -> Target | None:
        """Documents that pages link to and whose address has one form only."""
        query = f"?{urlencode(values, doseq=True)}" if values else ""
        return Target(kind="data", address=f"/api/v1/{quote(parts[0], safe='/')}{query}", suffix="json")

    def _diff(self, parts: list[str], values: Values) -> Target | None:
        sweep = self._plan.sweep(parts[0])
        if sweep is None or values:
            return None
        return Target(kind="evidence", address=f"/api/v1/pull-requests/{sweep.id}/{quote(parts[1], safe='')}/diff")

    def _evidence(self, parts: list[str], values: Values) -> Target | None:
        return None if values else Target(kind="evidence", address=f"/api/v1/evidence/{parts[0]}")

    def _asset(self, parts: list[str], values: Values) -> Target | None:
        return None if values else Target(kind="asset", address=f"/static/{parts[0]}", suffix=parts[1])

    def _page(
        self,
        page: str,
        address: str,
        data: str,
        *,
        path: str = "",
        folder: str = "",
        view: View | None = None,
        sweep: SweepPlan | None = None,
        judge: str = "",
        key: str = "",
        build: str = "",
    ) -> Target:
        name = hashlib.sha256(address.encode()).hexdigest()[:24]
        return Target(
            kind="page",
            address=address,
            page=page,
            path=path or f"{folder or _FOLDERS[page]}/{name}.html",
            data=data,
            view=view,
            sweep=sweep,
            judge=judge or (view.query.judge[0] if view else ""),
            key=key,
            build=build,
        )

    def _swept(self, view: View) -> SweepPlan:
        found = self._plan.sweep(view.query.sweep)
        assert found is not None
        return found


#: What leads from a sweep's page and heat map to some of its trials.
_TRIAL_FILTERS = ("outcome", "agent", "pull_request", "round")
_FOLDERS = {
    "board": "leaderboards",
    "pictures": "pictures",
    "row": "rows",
    "compare": "comparisons",
    "sweep": "sweeps",
    "heat map": "heat-maps",
    "trials": "trial-lists",
}


def _start(values: Values) -> str:
    """The query of a page's offset; none for the first page."""
    offset = _one(values, "offset") or "0"
    return "" if offset == "0" else "?" + urlencode({"offset": offset})


def _one(values: Values, name: str) -> str | None:
    """The last value of a name; None for an empty one."""
    return (values.get(name) or [""])[-1] or None


def _is_plain(view: View) -> bool:
    """Whether a view is its judge's default one."""
    return view.query == BoardQuery(sweep=view.query.sweep, judge=view.query.judge)


def _whole(view: View) -> str:
    """The state without what only pages distinguish."""
    return view.query.encoded(basis="grounded")


_Found: TypeAlias = Callable[[Addresses, list[str], Values], Target | None]
_ROUTES: Sequence[tuple[re.Pattern[str], _Found]] = [
    (re.compile(pattern), find)
    for pattern, find in [
        (r"/", Addresses._board),
        (r"/contents", Addresses._contents),
        (r"/sweeps", Addresses._sweeps),
        (r"/sweeps/([^/]+)", Addresses._sweep),
        (r"/sweeps/([^/]+)/heat-map", Addresses._heat_map),
        (r"/pictures", Addresses._pictures),
        (r"/compare", Addresses._compare),
        (r"/judges", Addresses._judges),
        (r"/judges/([^/]+)", Addresses._judge),
        (r"/sweeps/([^/]+)/rows/([^/]+)", Addresses._row),
        (r"/sweeps/([^/]+)/pull-requests/(.+)", Addresses._pull_request),
        (r"/sweeps/([^/]+)/trials", Addresses._trials),
        (r"/trials/(\d{1,9})", Addresses._trial),
        (r"/findings/(g-[0-9a-f]{12})", Addresses._finding),
        (r"/leaderboard/([a-z_-]+)\.(svg|png|csv|json)", Addresses._picture),
        (r"/leaderboard\.(csv|xlsx)", Addresses._table),
        (r"/api/v1/leaderboard", Addresses._document),
        (r"/api/v1/(leaderboard/pictures|compare|openapi\.json|sweeps|judges)", Addresses._other_document),
        (r"/api/v1/((?:judges|findings|trials|sweeps)/.+)", Addresses._other_document),
        (r"/api/v1/pull-requests/([^/]+)/(.+)/diff", Addresses._diff),
        (r"/api/v1/(pull-requests/.+)", Addresses._other_document),
        (r"/api/v1/evidence/([0-9a-f]{64})", Addresses._evidence),
        (r"/static/([a-z]+\.(css|svg))", Addresses._asset),
    ]
]

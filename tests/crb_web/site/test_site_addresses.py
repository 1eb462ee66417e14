"""Which address of the server is which file of a site."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from crb_core.settings import Settings
from crb_web.app import reading_app
from crb_web.site.addresses import Addresses
from crb_web.site.plan import SitePlan, planned
from tests.crb_web.site.conftest import KEY, SWEEP_NAME


@pytest.fixture(scope="module")
def plan(home: Path) -> Iterator[SitePlan]:
    state: Any = reading_app(Settings(home=home)).state
    yield planned(state.boards)
    state.boards.close()
    state.sources.close()


@pytest.fixture
def addresses(plan: SitePlan) -> Addresses:
    return Addresses(plan, lambda *_: False)


def path(addresses: Addresses, address: str) -> str | None:
    found = addresses.target(address)
    return None if found is None else found.path


def test_addresses_that_mean_the_same_are_one_file(addresses: Addresses, plan: SitePlan) -> None:
    """A sweep by id, name or default; a judge by name, fingerprint or default; defaults that are written out."""
    sweep, judge = plan.sweeps[0].id, plan.sweeps[0].judges[0]
    name = quote(SWEEP_NAME, safe="")
    same = [
        "/",
        f"/?sweep={sweep}",
        f"/?sweep={name}&judge={judge.name}",
        f"/?judge={judge.judge_id}&beta=1&basis=grounded&intervals=made",
        "/?severity=&allow_partial=false",
    ]
    assert {path(addresses, each) for each in same} == {"index.html"}


def test_only_the_views_of_the_plan_are_there(addresses: Addresses) -> None:
    """Filters, other betas, orders, unknown parameters and values that are none have no file."""
    for query in (
        "severity=high",
        "beta=0.7",
        "sort=grounded_recall",
        "beta=x",
        "nonsense=1",
        "sweep=other",
        "judge=x",
    ):
        assert addresses.target(f"/?{query}") is None, query
    assert addresses.target("/?beta=2") is not None
    assert addresses.target("/?basis=augmented&beta=0.5") is not None


def test_what_no_page_is_made_of_has_no_file(addresses: Addresses) -> None:
    """Pages that only a server has, files of others, and addresses that climb."""
    for address in ("/sign-in", "/sweeps/x", "/trials/1?x=1", "/../etc/passwd", "/static/../app.py", "/static/crb.js"):
        assert addresses.target(address) is None, address


def test_a_pull_request_has_pages_of_builds_only_where_one_page_is_too_small(plan: SitePlan) -> None:
    """Else every finding is on the page of all builds."""
    sweep = plan.sweeps[0]
    build = sweep.record["builds"][0]["build"]
    whole = f"/sweeps/{sweep.id}/pull-requests/{quote(KEY, safe='')}"
    few, many = Addresses(plan, lambda *_: False), Addresses(plan, lambda *_: True)
    assert path(few, f"{whole}?build={build}") == path(few, whole) == path(many, whole)
    assert path(many, f"{whole}?build={build}") != path(many, whole)
    assert few.target(f"/sweeps/{sweep.id}/pull-requests/other") is None

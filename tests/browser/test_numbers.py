"""What a filter shows in the browser is what ``crb leaderboard --json`` says, and the address holds all of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import Browser, Page
from typer.testing import CliRunner

from benchmarks.web import filled_home, served
from crb_cli.main import app
from crb_web.show import number, seconds
from tests.browser.conftest import Tabs
from tests.browser.stores import COMMENTS, MODELS, SHOWCASE, import_comments

SHARED_DATA = Path(os.environ.get("CRB_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))

Change = tuple[str, str]
#: Per case: sweep, what is done to the form, and the command's options for the same.
FINDINGS: list[tuple[str, list[Change], list[str]]] = [
    ("bench", [], []),
    ("bench", [("severity", "high")], ["--severity", "high"]),
    (
        "bench",
        [("severity", "high"), ("severity", "low"), ("category", "security")],
        ["--severity", "high", "--severity", "low", "--category", "security"],
    ),
    ("bench", [("scope", "introduced-by-pr")], ["--scope", "introduced-by-pr"]),
    (
        "bench",
        [("difficulty", "hard"), ("context_required", "diff-only")],
        ["--difficulty", "hard", "--context-required", "diff-only"],
    ),
    ("bench", [("producer", "human_review")], ["--producer", "human_review"]),
    ("bench", [("dimension", "language=Go")], ["--dimension", "language=Go"]),
    (
        "bench",
        [("dimension", "language=C++ & <b>"), ("dimension", "language=Go"), ("dimension", "change_type=fix")],
        ["--dimension", "language=C++ & <b>", "--dimension", "language=Go", "--dimension", "change_type=fix"],
    ),
    (
        "bench",
        [("dimension", "risk_level=high"), ("severity", "medium"), ("beta", "0.5")],
        ["--dimension", "risk_level=high", "--severity", "medium", "--beta", "0.5"],
    ),
    ("bench", [("beta", "2")], ["--beta", "2"]),
    ("bench", [("slider", "3.35")], ["--beta", "3.35"]),
    ("bench", [("sort", "grounded recall")], ["--sort", "grounded_recall"]),
    ("bench", [("basis", "augmented"), ("category", "correctness")], ["--category", "correctness"]),
    ("bench", [("basis", "augmented"), ("producer", "llm_review:one")], ["--producer", "llm_review:one"]),
    ("trial-run", [], []),
    ("trial-run", [("allow_partial", "true")], ["--allow-partial"]),
    (SHOWCASE, [("actionability", "actionable")], ["--actionability", "actionable"]),
    (SHOWCASE, [("judge", "reference"), ("severity", "high")], ["--severity", "high"]),
]
COMMENT_CASES: list[tuple[list[Change], list[str]]] = [
    ([], []),
    ([("judge", MODELS[1]), ("severity", "high")], ["--severity", "high"]),
    ([("judge", MODELS[2]), ("profile", "strict")], ["--profile", "strict"]),
    (
        [("profile", "all"), ("category", "style"), ("beta", "2")],
        ["--profile", "all", "--category", "style", "--beta", "2"],
    ),
    ([("no_dedup", "true"), ("dimension", "language=Ruby")], ["--no-dedup", "--dimension", "language=Ruby"]),
    ([("dimension", "risk_level=high"), ("slider", "0.55")], ["--dimension", "risk_level=high", "--beta", "0.55"]),
    ([("compatible", "true")], ["--compatible"]),
]
GROUNDED = ("grounded_precision", "grounded_recall", "grounded_f")


@pytest.fixture(scope="module")
def page(all_tabs: Tabs) -> Page:
    """One page for all cases: each begins at an address of its own."""
    return all_tabs.open(pictures=False)


@pytest.fixture(scope="module")
def plain_page(all_tabs: Tabs) -> Page:
    """A page without scripts."""
    return all_tabs.open(pictures=False, java_script_enabled=False)


@pytest.fixture
def command(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """``crb leaderboard show`` over the served store, or over another one."""

    def run(sweep: str, *options: str, at: Path = home) -> dict[str, Any]:
        monkeypatch.setenv("CRB_HOME", str(at))
        ran = CliRunner().invoke(app, ["leaderboard", "show", sweep, *options, "--json"], catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
        found: dict[str, Any] = json.loads(ran.stdout)
        return found

    return run


def change(page: Page, name: str, value: str) -> None:
    """Do what a person does with a field; its change leads to a new address."""
    with page.expect_navigation():
        if name == "judge":
            option = page.locator("#judge option").filter(has_text=value).first
            page.locator("#judge").select_option(option.get_attribute("value"))
        elif name == "profile":
            page.locator("#profile").select_option(value)
        elif name == "slider":
            slider = page.locator("#beta")
            slider.evaluate(
                "(field, value) => { field.value = value; field.dispatchEvent(new Event('input', {bubbles: true})); "
                "field.dispatchEvent(new Event('change', {bubbles: true})); }",
                value,
            )
        elif name == "beta":
            page.locator("#presets a").filter(has_text=f"({value})").click()
        elif name == "sort":
            page.get_by_label(f"Sort by {value}").click()
        elif name == "compatible":
            page.get_by_role("link", name="Count as the public tool does").click()
        else:
            field = page.locator(f"#filters input[name='{name}'][value='{value}']")
            field.evaluate("each => { const closed = each.closest('details'); if (closed) closed.open = true; }")
            field.check()


def shown(page: Page) -> list[list[str]]:
    """The table's cells as they are seen, without reasons, which show on focus only."""
    rows: list[list[str]] = page.locator("table.board tbody tr").evaluate_all(
        """rows => rows.map(row => [...row.cells].map(cell => {
             const copy = cell.cloneNode(true);
             for (const each of copy.querySelectorAll('.reason, .place-in-chart')) each.remove();
             return copy.textContent.replace(/\\s+/g, ' ').trim();
           }))"""
    )
    return rows


def _metric(row: dict[str, Any], metric: str) -> str:
    macro = row["macro"][metric]
    if macro["mean"] is None:
        return "–"
    interval = macro["interval"]
    parts = [number(macro["mean"])]
    if macro["std"] is not None:
        parts.append(f"±{number(macro['std'])}")
    parts.append(
        "no interval" if interval["low"] is None else f"{number(interval['low'])} – {number(interval['high'])}"
    )
    parts.append(f"micro {number(row['micro'][metric]['mean'])}")
    if macro["n"] != macro["of"]:
        parts.append(f"n {macro['n']} of {macro['of']}")
    return " ".join(parts)


def _duration(row: dict[str, Any]) -> str:
    mean, std = row["duration"]["mean_ms"], row["duration"]["std_ms"]
    return seconds(mean) + (f" ±{seconds(std)}" if mean is not None and std is not None else "")


def _charge(row: dict[str, Any]) -> str:
    mean, failed = row["charge"]["mean_usd"], row["charge"]["failed_attempts"]
    said = "–" if mean is None else f"{number(mean, 4)} observed"
    if not failed["attempts"]:
        return said
    charged = f"{number(failed['total_usd'], 4)} charged for {failed['charged']}"
    attempts = f"{failed['attempts']} failed attempt{'' if failed['attempts'] == 1 else 's'}"
    return f"{said} without {attempts}: {'no charge known' if failed['total_usd'] is None else charged}"


def expected_findings(board: dict[str, Any], basis: str) -> list[list[str]]:
    """Rank, agent and build, every metric of the basis, trials, seconds, charge, letters: what the document says."""
    names = [f"{basis}_precision", f"{basis}_recall", f"{basis}_f"]
    names += ["novel_tp_yield"] if basis == "augmented" else []
    rows = []
    for row in board["rows"]:
        used, left_out = len(row["rounds_used"]), len(row["rounds_left_out"])
        trials = f"{row['scored']} of {row['planned']}{used} round{'' if used == 1 else 's'}"
        trials += f", {left_out} left out" if left_out else ""
        rank = "–" if row["rank"] is None else str(row["rank"])
        rows.append(
            [
                rank,
                f"{row['agent']}{row['build']}",
                *(_metric(row, name) for name in names),
                trials,
                _duration(row),
                _charge(row),
                row["letters"] or "",
            ]
        )
    return rows


@pytest.mark.parametrize(("sweep", "changes", "options"), FINDINGS)
def test_a_filter_shows_the_numbers_of_the_command(
    tabs: Tabs, page: Page, plain_page: Page, command: Any, sweep: str, changes: list[Change], options: list[str]
) -> None:
    """Every cell of the table; again in another browser at the same address that runs no scripts."""
    page.goto(f"{tabs.origin}/?sweep={sweep}")
    for name, value in changes:
        change(page, name, value)
    basis = dict(changes).get("basis", "grounded")
    judge = page.locator("#judge").input_value()
    board = command(sweep, "--judge", judge, *options)["leaderboards"][0]
    expected = expected_findings(board, basis)
    assert expected
    cells = [row[: len(expected[0])] for row in shown(page)]
    assert [[cell.replace(" ", "") for cell in row] for row in cells] == [
        [cell.replace(" ", "") for cell in row] for row in expected
    ]
    plain_page.goto(page.url)
    assert [row[: len(expected[0])] for row in shown(plain_page)] == cells


@pytest.mark.parametrize(("changes", "options"), COMMENT_CASES)
def test_imported_judges_show_the_numbers_of_the_command(
    tabs: Tabs, page: Page, command: Any, changes: list[Change], options: list[str]
) -> None:
    """Counts and ratios to four decimals, under each of three judges, profile and counting."""
    page.goto(f"{tabs.origin}/?sweep={COMMENTS}")
    for name, value in changes:
        change(page, name, value)
    check_comments(page, command, COMMENTS, options)


def check_comments(page: Page, command: Any, sweep: str, options: list[str], **more: Any) -> None:
    judge = page.locator("#judge").input_value()
    board = command(sweep, "--judge", judge, *options, **more)
    rows = [row for row in board["rows"] if row["row_identity"]["judge"] == judge or len(board["judges"]) == 1]
    expected = [
        [
            "–" if row["rank"] is None else str(row["rank"]),
            row["agent"],
            *("–" if row[name] is None else str(row[name]) for name in ("tp", "fp", "fn")),
            *(number(row[name], 4) for name in ("precision", "recall", "f", "macro_f1")),
        ]
        for row in rows
    ]
    assert expected
    assert [
        [cell.split(" ")[0][:6] if place > 4 else cell for place, cell in enumerate(row[:9])] for row in shown(page)
    ] == expected


def test_the_way_back_has_the_old_state(tabs: Tabs) -> None:
    """Each change is an address of its own: back and forward show its numbers and its fields, and the focus stays."""
    page = tabs.open("/?sweep=bench", pictures=False)
    seen = [(page.url, shown(page))]
    for name, value in (("severity", "high"), ("dimension", "language=Go"), ("slider", "2.5"), ("basis", "augmented")):
        change(page, name, value)
        seen.append((page.url, shown(page)))
        focused = page.evaluate("document.activeElement.name")
        assert focused == ("beta" if name == "slider" else name) or name == "slider"
    assert len({url for url, _ in seen}) == len(seen)
    for url, cells in reversed(seen[:-1]):
        page.go_back()
        assert (page.url, shown(page)) == (url, cells)
        assert page.locator("#beta").is_enabled()
    assert page.locator("#filters input[type=checkbox]:checked").count() == 0
    page.go_forward()
    assert (page.url, shown(page)) == seen[1]
    page.reload()
    assert (page.url, shown(page)) == seen[1]
    assert page.locator("#severity-1").is_checked()


def test_defaults_stay_out_of_the_address(tabs: Tabs, page: Page) -> None:
    """A link that is shared says what was chosen and nothing else."""
    page.goto(f"{tabs.origin}/?sweep=bench")
    change(page, "severity", "high")
    assert {name for name, _ in parse_qsl(urlsplit(page.url).query)} == {"sweep", "judge", "severity"}


def test_filters_work_without_scripts(tabs: Tabs, plain_page: Page, command: Any) -> None:
    """The button that scripts hide sends the form."""
    page = plain_page
    page.goto(f"{tabs.origin}/?sweep=bench")
    page.locator("details.filters summary").first.click()
    page.locator("#severity-1").check()
    page.get_by_role("button", name="Apply").click()
    board = command("bench", "--severity", "high")["leaderboards"][0]
    expected = expected_findings(board, "grounded")
    assert [row[2].replace(" ", "") for row in shown(page)] == [row[2].replace(" ", "") for row in expected]


@pytest.mark.thorough
def test_a_big_sweep_shows_the_numbers_of_the_command(
    browser: Browser, command: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """131,400 findings: filters are answered at once, without intervals, which the page offers."""
    home = filled_home(tmp_path_factory.mktemp("big"))
    with served(home) as (host, _):
        origin = f"http://{host}"
        tabs = Tabs(browser, origin)
        page = tabs.open("/?sweep=bench", pictures=False)
        change(page, "severity", "high")
        change(page, "category", "security")
        board = command("bench", "--severity", "high", "--category", "security", at=home)["leaderboards"][0]
        assert len(board["rows"]) == 20
        expected = [
            [f"{number(row['macro'][name]['mean'])} micro {number(row['micro'][name]['mean'])}" for name in GROUNDED]
            for row in board["rows"]
        ]
        found = [[_without_spread(cell) for cell in row[2:5]] for row in shown(page)]
        assert found == expected
        assert (tabs.outside, tabs.said, tabs.dialogs) == ([], [], [])
        tabs.close()


def _without_spread(cell: str) -> str:
    """Mean and micro value of a cell, without deviation, interval and denominator."""
    mean, rest = cell.split(" ", 1)
    return f"{mean} micro {rest.split('micro ')[1].split(' ')[0]}"


@pytest.mark.skipif(
    not (SHARED_DATA / "golden-comments").is_dir(),
    reason="the shared data is not here; CRB_SHARED_DATA names its folder",
)
def test_the_real_judges_show_the_numbers_of_the_command(browser: Browser, command: Any, tmp_path: Path) -> None:
    """The public benchmark of golden comments under each of its three judges, strict and as the public tool counts."""
    import_comments(tmp_path, SHARED_DATA / "golden-comments", "published")
    with served(tmp_path) as (host, _):
        origin = f"http://{host}"
        tabs = Tabs(browser, origin)
        page = tabs.open("/?sweep=published", pictures=False)
        judges = page.locator("#judge option").evaluate_all("all => all.map(each => each.value)")
        assert len(judges) == 3
        for judge in judges:
            for more in ("", "&compatible=true"):
                page.goto(f"{origin}/?sweep=published&judge={judge}{more}")
                check_comments(page, command, "published", ["--compatible"] if more else [], at=tmp_path)
        tabs.close()

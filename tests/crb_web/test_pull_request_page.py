"""The page of a pull request: each finding at its line with what the judge says, whatever its size and its texts."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape

import pytest

from crb_core.evidence import FolderEvidence
from crb_web.diff_view import PAGE_LINES
from tests.crb_web.audit_store import DIFF, add_candidate, big_home, imported_home, new_file, with_diff
from tests.crb_web.conftest import client_of
from tests.crb_web.test_pages import BIDI, HOSTILE, Page, links, page

PR = "/sweeps/trial-run/pull-requests/pr-1"


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A client over the imported sweep with a diff of pr-1."""
    with client_of(imported_home(tmp_path_factory.mktemp("imported"))) as client:
        yield client


def identifiers(text):
    return [each["id"] for _, each in Page(text).elements if each.get("id")]


def test_every_finding_of_every_trial_is_there_once(shown):
    """Golden and candidate findings, all with their own anchor, on a real sweep with a real diff."""
    sweep = shown.get("/api/v1/sweeps").json()["sweeps"][0]["id"]
    for key in shown.get(f"/api/v1/sweeps/{sweep}").json()["pull_requests"]:
        answer = shown.get(f"/api/v1/pull-requests/{sweep}/{key}").json()
        text = page(shown, f"/sweeps/{sweep}/pull-requests/{key}")
        found = Counter(identifiers(text))
        assert max(found.values()) == 1
        for golden in answer["golden"]:
            assert found[f"golden-{golden['position']}"] == 1
            assert f"/findings/{golden['finding_id']}" in text
        for trial in answer["trials"]:
            for finding in trial["candidates"]:
                assert found[f"finding-{trial['trial']}-{finding['position']}"] == 1
                assert finding["finding_id"] in text
        assert answer["diff"]["source"] == "evidence"
        internal = [each[1:] for each in links(text) if each.startswith("#")]
        assert [each for each in internal if each not in found] == []


def test_a_finding_stands_after_its_last_line(imported):
    """Golden 0 of a.py:3 and the candidate of lines 3 to 4 follow their lines; what the diff does not show is below."""
    text = page(imported, PR)
    line = {number: text.index(f'id="file-0-{number}"') for number in (3, 4, 5, 9, 10, 12)}
    assert line[3] < text.index('id="golden-0"') < line[4]
    first = re.search(r'id="finding-(\d+)-0"', text)
    assert first
    assert line[4] < first.start() < line[5]
    assert line[9] < text.index('id="golden-1"') < line[10]
    assert line[12] < text.index('id="golden-2"')
    outside = text.index("Outside the lines shown:")
    assert outside < text.index(f'id="finding-{first[1]}-2"')


def test_the_diff_is_shown_as_it_is(imported):
    """Numbers of both sides, signs as text, markup escaped, tabs kept, git's notes, renamed and deleted files."""
    text = page(imported, PR)
    assert '<td></td><td><a href="#file-0-4">4</a></td><td>+</td><td>\tfour &lt;b&gt;</td>' in text
    assert "<td>3</td><td></td><td>−</td><td>six</td>" in text
    assert "No newline at end of file" in text
    assert 'was b.py</span> <span class="note">renamed' in text.replace("\n", " ")
    assert "<td>1</td><td></td><td>−</td><td>gone</td>" in text
    assert imported.get("/api/v1/pull-requests/trial-run/pr-1/diff").content == DIFF


def test_what_the_judge_says(imported):
    """Claims with probability and reasoning; a match whose golden finding another claims says which one does."""
    text = page(imported, PR)
    assert re.search(
        r'Claims <a href="#golden-0">golden finding 0</a> <span class="note">probability 0.75</span>', text
    )
    assert "the same" in text
    answer = imported.get("/api/v1/pull-requests/trial-run/pr-1").json()
    first = next(trial for trial in answer["trials"] if trial["agent"] == "alpha" and trial["round"] == 1)
    states = {each["position"]: each["state"] for each in first["golden"]}
    # Both candidates match golden 0 in round 1; in round 3 the second one matches the false positive.
    assert states == {0: "claimed", 1: "missed", 2: "not reported"}
    assert (
        f'<a href="#golden-0">golden finding 0</a>, which <a href="#finding-{first["trial"]}-0">finding 0</a> claims'
        in text
    )
    third = next(trial for trial in answer["trials"] if trial["agent"] == "alpha" and trial["round"] == 3)
    assert [each["state"] for each in third["golden"]] == ["claimed", "missed", "claimed"]


def test_covered_by_another(tmp_path):
    """A golden finding that only a candidate matches which claims another one: recall counts it, and it says so."""
    from sqlalchemy import insert, select

    from crb_core.store.tables import CorrespondenceRow, JudgmentRow, core
    from tests.crb_web.audit_store import opened

    home = imported_home(tmp_path)
    store = opened(home)
    with store.write() as connection:
        judgment = connection.execute(
            select(core(JudgmentRow).c.id).where(core(JudgmentRow).c.trial_id == 1)
        ).scalar_one()
        connection.execute(insert(core(CorrespondenceRow)), [{"judgment_id": judgment, "candidate": 0, "golden": 1}])
    store.close()
    with client_of(home) as client:
        trial = client.get("/api/v1/pull-requests/trial-run/pr-1").json()["trials"][0]
        assert [(each["state"], each["claimed_by"], each["by"]) for each in trial["golden"][:2]] == [
            ("claimed", 0, [0, 1]),
            ("covered by another", None, [0]),
        ]
        assert '<span class="became covered-by-another">1: <a href="#finding-1-0">covered by another</a>' in page(
            client, PR
        )


def test_filters_are_in_the_address(imported):
    """By build, round and state; all golden findings stay."""
    answer = imported.get("/api/v1/pull-requests/trial-run/pr-1").json()
    alpha = next(trial["build"] for trial in answer["trials"] if trial["agent"] == "alpha")
    text = page(imported, PR, build=alpha, round="2", state="matched")
    shown = [each for each in identifiers(text) if re.fullmatch(r"finding-\d+-\d+", each)]
    (trial,) = [each for each in answer["trials"] if each["build"] == alpha and each["round"] == 2]
    expected = [each["position"] for each in trial["candidates"] if each["state"] == "matched"]
    assert sorted(shown) == sorted(f"finding-{trial['trial']}-{position}" for position in expected)
    assert {"golden-0", "golden-1", "golden-2", "round-2"} <= set(identifiers(text))
    checked = {(each["name"], each["value"]) for each in Page(text).all("input") if "checked" in each}
    assert checked == {("build", alpha), ("round", "2"), ("state", "matched")}
    assert page(imported, PR, build="alpha") == page(imported, PR, build="alpha", judge="")
    assert "did not run the pull request" in page(imported, PR, 404, build="nobody")
    assert "has no round 9" in page(imported, PR, 404, round="9")
    assert "is nothing that a judge says" in page(imported, PR, 400, state="lovely")
    assert "There is no parameter colour" in page(imported, PR, 400, colour="red")


def test_a_cited_id_leads_to_its_finding(imported):
    """``/findings/g-…`` names corpus, pull request and sweeps; its link leads to the anchor."""
    golden = imported.get("/api/v1/pull-requests/trial-run/pr-1").json()["golden"][1]
    text = page(imported, f"/findings/{golden['finding_id']}")
    assert golden["message"] in text
    target = next(each for each in links(text) if "/pull-requests/" in each)
    path, anchor = target.split("#")
    assert anchor in identifiers(page(imported, path))
    answer = imported.get(f"/api/v1/findings/{golden['finding_id']}").json()
    assert [(each["pull_request"], each["golden"]) for each in answer["places"]] == [("pr-1", 1)]
    assert imported.get("/api/v1/findings/g-000000000000").status_code == 404
    assert imported.get("/api/v1/findings/nonsense").status_code == 400


def test_without_a_diff_findings_stand_by_file(served):
    """An imported review records none: the page says why, and shows every finding all the same."""
    text = page(served, PR)
    assert "no review recorded it" in text
    assert {"golden-0", "golden-1", "golden-2"} <= set(identifiers(text))
    assert served.get("/api/v1/pull-requests/trial-run/pr-1/diff").status_code == 404


@pytest.mark.parametrize("spoil", ["missing", "changed", "malformed"])
def test_a_diff_that_cannot_be_read_is_said(tmp_path, spoil):
    """Missing, changed or malformed: the reason, and the findings without it."""
    home = imported_home(tmp_path)
    digest = with_diff(home, b"diff --git a/a.py b/a.py\n@@ nonsense\n") if spoil == "malformed" else None
    if digest is None:
        digest = FolderEvidence(home / "evidence").put(DIFF)
        blob = home / "evidence" / digest[:2] / digest
        blob.chmod(0o644)
        blob.write_bytes(b"other") if spoil == "changed" else blob.unlink()
    with client_of(home) as client:
        text = page(client, PR)
    said = {"missing": ": missing", "changed": ": digest differs", "malformed": "the hunk header is malformed"}
    assert said[spoil] in text
    assert "golden-0" in identifiers(text)


def test_hostile_texts_are_inert(tmp_path):
    """In paths, lines, headings and messages of a diff and of findings; a line of a megabyte is cut and says so."""
    home = imported_home(tmp_path)
    lines = [HOSTILE.replace("\n", " "), "x" * 1_000_000, "</td></tr></table><script>alert(1)</script>"]
    with_diff(home, new_file("a<img src=x>.py", lines) + DIFF)
    add_candidate(home, 1, position=50, message=HOSTILE, file="a<img src=x>.py", start_line=1, end_line=3)
    add_candidate(home, 1, position=51, message=HOSTILE, file=f"{HOSTILE}.py", start_line=1, end_line=1)
    add_candidate(home, 1, position=52, message="nowhere")
    with client_of(home) as client:
        for path in (PR, f"{PR}?file=a%3Cimg%20src%3Dx%3E.py"):
            text = page(client, path)
            elements = Page(text)
            assert [each.get("src") for each in elements.all("script")] == ["/static/crb.js"]
            assert elements.all("img") == []
            assert not [name for _, attributes in elements.elements for name in attributes if name.startswith("on")]
            assert not any(each in text for each in (BIDI, "\x1b", "\u200b", "\u2066"))
            assert len(text) < 120_000
            assert "999,000 characters more, in the diff itself" in text
        assert "Without a location" in page(client, PR)
        diff = client.get("/api/v1/pull-requests/trial-run/pr-1/diff")
        assert (diff.headers["content-type"], diff.headers["content-disposition"]) == (
            "application/octet-stream",
            'attachment; filename="diff.patch"',
        )
        assert "sandbox" in diff.headers["content-security-policy"]


def test_a_diff_of_20_000_lines_stays_a_page(tmp_path):
    """Cut around its findings, then page by page; no line is lost, and every finding is at its line."""
    home = big_home(tmp_path, lines=20_000, builds=3)
    with client_of(home) as client:
        base = "/sweeps/bench/pull-requests/pr-0"
        text = page(client, base)
        assert len(text) < 700_000
        assert "Show the whole file" in text
        answer = client.get("/api/v1/pull-requests/bench/pr-0").json()
        for trial in answer["trials"]:
            for finding in trial["candidates"]:
                place = text.index(f'id="finding-{trial["trial"]}-{finding["position"]}"')
                assert text.rindex('id="file-0-', 0, place) == text.rindex(
                    f'id="file-0-{finding["end_line"]}"', 0, place
                )
        seen: list[int] = []
        address = f"{base}?file=src/module.py"
        while address:
            part = page(client, address)
            assert len(part) < 1_200_000
            seen += map(int, re.findall(r'id="file-0-(\d+)"', part))
            following = re.search(r'<a rel="next" href="([^"]+)"', part)
            address = unescape(following[1]) if following else ""
        assert seen == list(range(1, 20_001))
        assert page(client, f"{base}?file=src/module.py&start=20000", 404)
        assert page(client, f"{base}?file=nothing.py", 404)


def test_many_candidates_ask_for_an_agent(tmp_path):
    """Golden findings and the table stay; each cell leads to the agent's own page, where all of its findings are."""
    with client_of(big_home(tmp_path, lines=300, builds=14)) as client:
        base = "/sweeps/bench/pull-requests/pr-0"
        text = page(client, base)
        assert "420 candidate findings are too many for one page" in text
        assert [each for each in identifiers(text) if each.startswith("finding-")] == []
        target = next(each for each in links(text) if "#finding-" in each)
        path, anchor = target.split("#")
        assert anchor in identifiers(page(client, path))
        assert len([each for each in identifiers(page(client, path)) if re.fullmatch(r"finding-\d+-\d+", each)]) == 30


def test_pages_of_a_file_are_bounded():
    """A page of the diff has fewer lines than a browser needs to stay quick."""
    assert PAGE_LINES <= 5000

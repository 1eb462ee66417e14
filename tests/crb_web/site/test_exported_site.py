"""An exported site: the server's pages as files, whole, inert, the same whenever and wherever it is made."""

from __future__ import annotations

import hashlib
import io
import json
import posixpath
import re
import stat
import zipfile
from html import escape
from pathlib import Path
from urllib.parse import unquote

import pytest

from crb_core.pictures import PICTURES
from crb_web.site.export import POLICY
from crb_web.site.markup import Page, parsed
from tests.crb_web.conftest import client_of
from tests.crb_web.site.conftest import SECRET, export

#: Names of our own making: folders by kind, files by number or digest.
NAME = re.compile(r"([a-z-]+/){0,2}([0-9a-f]{2}/)?[a-z0-9-]+\.(html|css|svg|png|json|csv|xlsx|txt|bin)")


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    """Every page by its path."""
    return {each.relative_to(site).as_posix(): parsed(each.read_text()) for each in sorted(site.rglob("*.html"))}


def files(site: Path) -> dict[str, Path]:
    return {each.relative_to(site).as_posix(): each for each in sorted(site.rglob("*")) if each.is_file()}


def texts(page: Page) -> list[str]:
    """The words of a page."""
    return [word for piece in page.pieces if isinstance(piece, str) for word in piece.split()]


def numbered(text: str) -> str:
    """What the server says, with the machines as the site numbers them."""
    return text.replace("build-machine-7", "host-1")


def test_no_link_is_dead(site: Path, pages: dict[str, Page]) -> None:
    """Every link is relative, leads to a file of the site, and to an element that is there."""
    there = files(site)
    count = 0
    for path, page in pages.items():
        for address in page.addresses:
            name, _, fragment = address.partition("#")
            assert not re.match(r"[a-z+]+:|/|.*\?", name), (path, address)
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(name))) if name else path
            assert target in there, (path, address)
            # The sweep's page leads to the logs of a trial that may have none.
            if fragment and target in pages and fragment != "logs":
                assert fragment in pages[target].ids, (path, address)
            count += 1
    assert count > 1000


def test_every_page_can_be_reached(site: Path, pages: dict[str, Page]) -> None:
    """From index.html by links alone, and so can all data and evidence."""
    reached, waiting = {"index.html", "manifest.json"}, ["index.html"]
    while waiting:
        path = waiting.pop()
        for address in pages[path].addresses if path in pages else ():
            name = address.partition("#")[0]
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(name))) if name else path
            if target not in reached:
                reached.add(target)
                waiting.append(target)
    assert reached == set(files(site))


def test_nothing_on_a_page_runs(site: Path, pages: dict[str, Page]) -> None:
    """No script, form, style or handler, whatever an agent wrote; the policy stands in front of every address."""
    for path in pages:
        source = (site / path).read_text()
        assert not re.search(r"<(script|form|style|iframe|object|embed|base|input|button)\b", source), path
        assert not re.search(r"<[^>]*\s(on[a-z]+|style)=", source), path
        assert source.index(f'content="{escape(POLICY)}"') < source.index("href="), path


def test_names_from_outside_are_no_paths(site: Path) -> None:
    """Whatever sweeps, pull requests and agents are called."""
    assert [path for path in files(site) if not NAME.fullmatch(path)] == []


def test_content_is_named_by_its_digest(site: Path) -> None:
    """Assets, data and evidence; the manifest has every file."""
    listed = {each["path"]: each for each in json.loads((site / "manifest.json").read_text())["files"]}
    found = files(site)
    assert set(listed) == set(found) - {"manifest.json"}
    for path, file in found.items():
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        assert path == "manifest.json" or listed[path]["sha256"] == digest
        if path.startswith(("assets/", "data/", "evidence/")):
            assert Path(path).stem == digest


def test_the_same_store_gives_the_same_bytes(site: Path, moved_home: Path, tmp_path: Path) -> None:
    """In another home, at another time, under another hash seed."""
    done = export(moved_home, tmp_path / "two", PYTHONHASHSEED="77")
    assert done.returncode == 0, done.stderr
    one, two = files(site), files(tmp_path / "two")
    assert set(one) == set(two)
    assert [path for path in one if one[path].read_bytes() != two[path].read_bytes()] == []
    assert {stat.S_IMODE(each.stat().st_mode) for each in two.values()} == {0o644}


def test_secrets_and_folders_stay_at_home(site: Path, home: Path, pages: dict[str, Page]) -> None:
    """In no byte of the site; the page says that a blob was withheld, and what is missing."""
    for path, file in files(site).items():
        data = file.read_bytes()
        if path.endswith(".xlsx"):
            with zipfile.ZipFile(io.BytesIO(data)) as book:
                data = b"".join(book.read(name) for name in book.namelist())
        assert SECRET.encode() not in data, path
        assert str(home).encode() not in data, path
    trial = (site / "trials/1.html").read_text()
    assert 'title="Withheld: the blob names folders of the exporting machine or holds a secret"' in trial
    assert "see &lt;folder of the exporting machine&gt;/crb.toml &lt;secret&gt;" in trial
    assert 'title="The blob is missing or damaged in the evidence store"' in trial


def test_pages_say_what_the_server_says(site: Path, home: Path) -> None:
    """Word for word, but for what only a server can do."""
    with client_of(home) as client:
        for path, address in (("judges.html", "/judges"), ("trials/3.html", "/trials/3"), ("sweeps.html", "/sweeps")):
            live = texts(parsed(numbered(client.get(address).text)))
            still = texts(parsed((site / path).read_text()))
            assert " ".join(still).rsplit(" A page of a site that ", 1)[0] == " ".join(live), path


def test_numbers_are_those_of_the_api(site: Path, home: Path, pages: dict[str, Page]) -> None:
    """The document behind the first page is the server's, and the page shows its rows."""
    behind = next(each for each in pages["index.html"].addresses if each.startswith("data/") and each.endswith("json"))
    kept = [json.loads(each.read_text()) for each in (site / "data").rglob("*.json")]
    with client_of(home) as client:
        live = client.get("/api/v1/leaderboard").json()
        assert json.loads(numbered(client.get("/api/v1/trials/3").text)) in kept
        assert client.get("/api/v1/judges").json() in kept
    assert live in kept
    assert behind
    shown = (site / "index.html").read_text()
    for row in live["leaderboards"][0]["rows"]:
        assert f">{row['macro']['grounded_f']['mean']:.2f}</a>" in shown


def test_three_clicks_from_a_number_to_its_evidence(site: Path, pages: dict[str, Page]) -> None:
    """Number, pull requests of the row, finding, blob."""

    def follow(path: str, kind: str) -> str:
        found = next(each for each in pages[path].addresses if f"{kind}/" in each)
        return posixpath.normpath(posixpath.join(posixpath.dirname(path), found.partition("#")[0]))

    blob = follow(follow(follow("index.html", "rows"), "pull-requests"), "evidence")
    assert (site / blob).is_file()


def test_binary_evidence_is_a_download(site: Path) -> None:
    """A browser shows .txt as text and saves .bin; markup in a blob is neither page nor script."""
    kinds = {each.suffix for each in (site / "evidence").rglob("*") if each.is_file()}
    assert kinds == {".txt", ".bin"}
    binary = next((site / "evidence").rglob("*.bin"))
    assert binary.read_bytes().startswith(b"\x00")


def test_a_picture_is_there_as_png_too(site: Path, home: Path, pages: dict[str, Page]) -> None:
    """Beside each SVG that can be saved, and the server's, where its texts tell nothing private."""
    found = [each for each in pages["index.html"].addresses if each.endswith(".png")]
    assert len(found) == len(PICTURES)
    with client_of(home) as client:
        drawn = client.get("/leaderboard/union.png?download=true").content
    assert drawn in [(site / each).read_bytes() for each in found]
    assert all((site / each).read_bytes().startswith(b"\x89PNG\r\n") for each in found)


def test_what_is_not_there_is_said(site: Path) -> None:
    """A link to what only a server computes is text, and says so; the views and pairs that are there are links."""
    index = (site / "index.html").read_text()
    assert "need <code>crb serve</code>" in index
    assert 'title="Not in this site; `crb serve` shows it">recall</span>' in index
    assert "recall first (beta 2)</bdi></a>" in index
    assert "alpha and beta</bdi></a>" in index
    contents = (site / "contents.html").read_text()
    assert "1 of 1 pairs" in contents
    assert "<code>crb verify FOLDER</code>" in contents

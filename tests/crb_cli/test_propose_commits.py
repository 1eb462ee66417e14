"""``crb corpus propose ... follow-up-commits``: a corpus over a mirror, with what its author did after the review."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crb_cli.main import app
from tests.crb_cli.commands import Commands
from tests.crb_worker.test_snapshot import Upstream

commands = Commands(app)

LINES = [f"value {number}" for number in range(1, 21)]


def text(**changed: str) -> str:
    return "".join(f"{changed.get(f'l{number}', line)}\n" for number, line in enumerate(LINES, start=1))


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A stored corpus of one pull request, and the list of its commits: the head and five after it, one by another."""
    monkeypatch.setenv("CRB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    upstream = Upstream(tmp_path / "up")
    upstream.git("checkout", "--quiet", "-b", "work", upstream.root)
    head = upstream.commit({"a.txt": text()}, "the change")
    shas = [
        upstream.commit({"a.txt": text(l3="mended 3")}, "Fix value 3"),
        upstream.commit({"a.txt": text(l3="mended 3", l9="other 9")}, "Tidy up"),
        upstream.commit({"a.txt": text(l3="mended again", l9="other 9")}, "Fix it once more"),
        upstream.commit({"c.txt": "c\n"}, "fix: more files"),
        upstream.commit({"a.txt": "0\n" + text(l3="mended again", l9="other 9", l15="mended 15")}, "fix 15"),
    ]
    pr = {"repo": "https://github.com/acme/up", "pr_number": 7, "base": upstream.root, "head": head}
    key = f"acme_up_7-{head[:8]}"
    label = {"tp_fp": "tp", "severity": "low", "category": "correctness"}
    finding = {"file": "a.txt", "start_line": 1, "end_line": 1, "message": "m", "producer": "people", **label}
    files: dict[str, Any] = {
        "corpus/manifest.json": [{**pr, "title": "t", "body": "", "nwo": "acme/up", "pr_url": f"{pr['repo']}/pull/7"}],
        f"corpus/golden/{key}.json": {"pr_key": key, "pr": pr, "findings": [finding]},
        f"{key}.json": [
            {
                "sha": sha,
                "parents": [{"sha": parent}],
                "author": {"login": "ann" if place != 2 else "ben"},
                "commit": {"message": upstream.git("log", "-1", "--format=%B", sha)},
            }
            for place, (parent, sha) in enumerate(zip([upstream.root, head, *shas], [head, *shas], strict=False))
        ],
    }
    for name, value in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")
    commands.run("corpus", "import", "reviewbench", "corpus", "--name", "mine", "--mirror", str(tmp_path / "up"))
    return key


def propose(key: str, out: str, *more: str) -> Any:
    given = ("corpus", "propose", "mine", "follow-up-commits", f"{key}.json", "--out", out, "--fake-model")
    return commands.read(*given, *more)


def test_what_later_commits_show(corpus: str) -> None:
    """Sure ones, at their lines at the reviewed head; what another later commit wrote is no finding about that head."""
    summary = propose(corpus, "p.json")
    document = json.loads(Path("p.json").read_text(encoding="utf-8"))
    assert [(each["start_line"], each["message"], each["source"]["alignment"]) for each in document["proposals"]] == [
        (3, "This line is wrong: value 3", "on_chosen_head"),
        (15, "This line is wrong: value 15", "remapped_unchanged"),
    ]
    first = document["proposals"][0]
    assert (first["producer"], first["source"]["type"], first["source"]["author"]) == (
        "inferred_author_action",
        "follow_up_commit",
        "ann",
    )
    assert (first["source"]["quote"].strip(), first["source"]["confidence"]) == ("value 3", "high")
    assert [each["kind"] for each in summary["left_out"]] == [
        "commit by another account",
        "inference that is not about the reviewed code",
        "commit without modified lines",
    ]
    (producer,) = summary["producers"]
    assert producer["version"].startswith("j-")

    # The answers are kept, so the same again asks for none; without them nothing is paid for.
    assert propose(corpus, "again.json", "--max-cost", "0")["proposals"] == 2


def test_a_guess_is_no_finding(corpus: str) -> None:
    """What the model is not sure of is named with its confidence."""
    kinds = [(each["kind"], each["problem"]) for each in propose(corpus, "p.json", "--author", "ben")["left_out"]]
    assert ("inference that is not sure", "confidence low: This line is wrong: value 9") in kinds


def test_without_a_key_nothing_is_written(corpus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said in a sentence; there is no half file."""
    from typer.testing import CliRunner

    from crb_core.errors import UnavailableError

    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    given = ["corpus", "propose", "mine", "follow-up-commits", f"{corpus}.json", "--out", "p.json"]
    with pytest.raises(UnavailableError):
        CliRunner().invoke(app, given, catch_exceptions=False)
    assert not Path("p.json").exists()

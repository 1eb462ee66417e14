"""docs/own-corpus.md, followed word by word: both forms of a corpus of one's own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crb_cli.main import app
from crb_core.errors import CrbError

PAGE = Path(__file__).parents[2] / "docs" / "own-corpus.md"
BEFORE = "def total(xs):\n    return sum(xs)\n"
AFTER = "def total(xs):\n    return float(sum(xs))\n"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRB_HOME", str(tmp_path / "home"))


def run(*arguments: str) -> Any:
    """The JSON of a command that ends well."""
    done = CliRunner().invoke(app, [*arguments, "--json"], prog_name="crb", catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def git(*arguments: str) -> str:
    identity = ("-c", "user.name=Anna", "-c", "user.email=anna@example.org")
    command = ["git", "-C", "git/shop", *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def commits() -> tuple[str, str, str]:
    """Base and head of a clone with one change, and the diff between them."""
    Path("git/shop").mkdir(parents=True)
    git("init", "--quiet")
    ids = []
    for text in (BEFORE, AFTER):
        Path("git/shop/shop.py").write_text(text)
        git("add", "shop.py")
        git("commit", "--quiet", "--message", "change")
        ids.append(git("rev-parse", "HEAD"))
    return ids[0], ids[1], git("diff", *ids) + "\n"


def example(begin: str) -> Any:
    """The JSON example of the page that begins so."""
    lines = PAGE.read_text().split("\n")
    first = next(number for number, line in enumerate(lines) if line.strip().startswith(begin))
    last = next(number for number in range(first, len(lines)) if not lines[number].strip())
    return json.loads("\n".join(lines[first:last]))


def test_a_repository_that_is_there(commits: tuple[str, str, str]) -> None:
    """The examples with the commits of a clone are a corpus that agents can run on."""
    base, head, _ = commits
    (entry,) = example('[{"repo"')
    golden = example('{"pr_key"')
    key = f"acme_shop_41-{head[:8]}"
    golden["pr_key"] = key
    for part in (entry, golden["pr"]):
        part.update(base=base, head=head)
    Path("my-corpus/golden").mkdir(parents=True)
    Path("my-corpus/manifest.json").write_text(json.dumps([entry]))
    with pytest.raises(CrbError, match=f"golden/{key}.json"):
        CliRunner().invoke(app, ["corpus", "show", "my-corpus"], catch_exceptions=False)
    Path(f"my-corpus/golden/{key}.json").write_text(json.dumps(golden))
    assert run("corpus", "validate", "my-corpus")["problems"] == []
    mirror = f"{Path.cwd()}/git/{{repo}}"
    (snapshot,) = run("corpus", "snapshot", "my-corpus", "--mirror", mirror)["snapshots"]
    assert (Path(snapshot["repo"]) / "shop.py").read_text() == AFTER
    imported = run("corpus", "import", "reviewbench", "my-corpus", "--name", "mine", "--mirror", mirror)
    assert (imported["pull_requests"], imported["golden_findings"]) == (1, 1)


def test_text(commits: tuple[str, str, str]) -> None:
    """The fields that the page names are all that are needed, and sealing adds the rest."""
    pull_request = Path("my-corpus/pull_requests/shop-1")
    (pull_request / "base").mkdir(parents=True)
    (pull_request / "base" / "shop.py").write_text(BEFORE)
    (pull_request / "change.patch").write_text(commits[2])
    Path("my-corpus/corpus.toml").write_text(
        'name = "mine"\nversion = "1"\ntitle = "Mine"\nlicence = "MIT"\nprotocol = "reviewbench"\n'
        'pull_requests = ["shop-1"]\n[[producers]]\nname = "human:anna"\nversion = "1"\n'
    )
    (pull_request / "pull_request.toml").write_text(
        'repo = "https://github.com/acme/shop"\nnumber = 41\ntitle = "Totals"\nbody = ""\n'
        'language = "Python"\nchange_type = "feature"\ndomain = "retail"\ncomplexity = "simple"\n'
    )
    (finding,) = example('{"pr_key"')["findings"]
    labels = {line.split("`")[1]: line.split("`")[3] for line in PAGE.read_text().split("\n") if line.startswith("| `")}
    axes = {name: labels[name] for name in ("scope", "difficulty", "context_required", "actionability")}
    (pull_request / "golden.json").write_text(json.dumps({"findings": [finding | axes]}))
    assert run("corpus", "validate", "my-corpus", "--seal")["problems"] == []
    assert run("corpus", "validate", "my-corpus")["ok"] is True

"""Every parser of data from outside, each with valid documents to begin with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from crb_core.diff import DiffIndex
from crb_core.evidence import FolderEvidence
from crb_core.formats.agent_toml import parse_agent_toml, parse_reviewbench_agent
from crb_core.formats.archive_verify import verify_archive
from crb_core.formats.bundle import read_bundle
from crb_core.formats.checked import Problems
from crb_core.formats.golden_comments import read_corpus
from crb_core.formats.golden_comments_results import read_results
from crb_core.formats.human_labels import read_labels
from crb_core.formats.imported import Irregularities, JsonFile
from crb_core.formats.located import Places
from crb_core.formats.proposals import read_proposals
from crb_core.formats.pull_commits import read_follow_ups
from crb_core.formats.review_comments import read_remarks
from crb_core.formats.review_files import read_review_files
from crb_core.formats.reviewbench import read_reviewbench
from crb_core.formats.reviewbench_results import read_reviews
from crb_core.formats.showcase import read_showcase
from crb_core.formats.speed import read_speed
from crb_core.formats.strict_json import load_json
from crb_core.pull_request import PullRequest
from crb_core.store import open_store
from crb_core.store.backup import restore_backup, write_backup
from crb_worker.corpus_check import seal_corpus
from crb_worker.judge.recorded import FileAnswers
from crb_worker.sandbox.output import validate_findings
from tests.crb_core.archived import export, make_store
from tests.crb_core.formats import imported_samples as samples
from tests.crb_core.store.planned import plan
from tests.crb_worker.text_corpora import write_corpus

__all__ = ["TARGETS", "Target"]

REPOSITORY = Path(__file__).resolve().parents[2]
HEAD, BASE = "a" * 40, "b" * 40
PULL_REQUEST = PullRequest(
    key="shop-1", repo="https://github.com/example/shop", number=1, base=BASE, head=HEAD, title="A change"
)


@dataclass(frozen=True)
class Target:
    """``read`` parses one document, in a folder of its own, and returns what it holds or raises a CrbError."""

    name: str
    seeds: Callable[[], tuple[bytes, ...]]
    read: Callable[[Path, bytes], object]


def _dumped(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def _from_file(name: str, read: Callable[[Path], object]) -> Callable[[Path, bytes], object]:
    def parse(folder: Path, data: bytes) -> object:
        path = folder / name
        path.write_bytes(data)
        return read(path)

    return parse


FINDINGS = {
    "pr": {"repo": "https://github.com/example/shop", "pr_number": 1, "base": BASE, "head": HEAD},
    "agent": "a",
    "findings": [
        {
            "file": "/work/repo/shop.py",
            "start_line": 1,
            "end_line": 2,
            "message": "The total is wrong.",
            "producer": "a",
        },
        {"file": "./a/b.py", "start_line": 7, "end_line": 7, "message": "é 🦀", "producer": "a"},
    ],
    "usage": {"input_tokens": 10, "output_tokens": 2, "models": ["m"], "cost_usd": 0.25},
}
BUNDLE = {
    "format": "crb.bundle/1",
    "pull_requests": [
        {
            "key": "p",
            "golden": [
                {"file": "a.py", "start_line": 1, "end_line": 2, "message": "g", "tp_fp": "tp", "severity": "high",
                 "category": "correctness"},
                {"file": "a.py", "start_line": 5, "end_line": 5, "message": "h", "tp_fp": "fp"},
            ],
            "candidates": [
                {"file": "a.py", "start_line": 1, "end_line": 1, "message": "c"},
                {"file": "b.py", "start_line": 3, "end_line": 4, "message": "d"},
            ],
            "correspondences": [{"candidate": 0, "golden": [0, 1]}],
            "classifications": [{"candidate": 1, "tp_fp": "fp", "severity": "low", "category": "security"}],
        }
    ],
}  # fmt: skip
MANIFEST = {
    "name": "reviewer",
    "display_name": "Reviewer",
    "provider": "example",
    "image": "ghcr.io/example/reviewer@sha256:" + "0" * 64,
    "contacts": ["octocat"],
    "egress": ["api.example.com"],
}
RECORDING = {
    "format": "crb.judge-recording/1",
    "judge": {"name": "claude", "options": {"model": "m"}, "fingerprint": "j-1", "description": {}},
    "answers": [{"request_hash": "0" * 64, "label": "match", "ids": {"x": "candidate 0"}, "answer": {"content": []}}],
}
LABELS_CSV = b"pull_request,finding,tp_fp,severity,category,matches\np,f-1,tp,high,correctness,\np,f-2,fp,,,none\n"
DIFF = b"""diff --git a/shop.py b/shop.py
index 1..2 100644
--- a/shop.py
+++ b/shop.py
@@ -1,3 +1,4 @@ def total():
 a
-b
+c
+d
 e
diff --git "a/o\\303\\251.txt" "b/o\\303\\251.txt"
new file mode 100644
--- /dev/null
+++ "b/o\\303\\251.txt"
@@ -0,0 +1 @@
+x
\\ No newline at end of file
diff --git a/old b/new
similarity index 90%
rename from old
rename to new
diff --git a/pic.png b/pic.png
Binary files a/pic.png and b/pic.png differ
"""


def _agent_manifests() -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted((REPOSITORY / "agents").glob("*/agent.toml")))


@cache
def _archive() -> bytes:
    with TemporaryDirectory(prefix="fuzz-") as name:
        home = Path(name) / "farm"
        home.mkdir()
        make_store(home).close()
        export(home, Path(name) / "sweep.tar")
        return (Path(name) / "sweep.tar").read_bytes()


@cache
def _backup() -> bytes:
    with TemporaryDirectory(prefix="fuzz-") as name:
        store = open_store(f"sqlite:///{name}/crb.sqlite")
        plan(store)
        write_backup(store, FolderEvidence(Path(name) / "evidence"), Path(name) / "b.tar")
        store.close()
        return (Path(name) / "b.tar").read_bytes()


def _restore(path: Path) -> object:
    (path.parent / "crb.sqlite").unlink(missing_ok=True)
    store = open_store(f"sqlite:///{path.parent / 'crb.sqlite'}", migrate=False)
    try:
        return restore_backup(path, store, FolderEvidence(path.parent / "evidence"))
    finally:
        store.close()


def _verify(path: Path) -> object:
    result = verify_archive(path)
    assert result.ok or result.differences
    return result


def _benchmark(name: str) -> Target:
    """One file of a golden-comments folder is damaged, the others are whole."""

    def parse(folder: Path, data: bytes) -> object:
        samples.write_files(folder, samples.benchmark_files())
        (folder / name).write_bytes(data)
        return read_results(folder, read_corpus(folder, "c").corpus)

    return Target(f"golden-comments {name}", lambda: (_dumped(samples.benchmark_files()[name]),), parse)


def _reviewbench(name: str) -> Target:
    def parse(folder: Path, data: bytes) -> object:
        samples.write_files(folder, samples.rb_files())
        (folder / name).write_bytes(data)
        corpus, _ = read_reviewbench(folder / "corpus", "c")
        return read_reviews(folder / "reviews", corpus)

    return Target(f"reviewbench {name}", lambda: (_dumped(samples.rb_files()[name]),), parse)


def _review_file(format_name: str, sample: Callable[[], Any]) -> Target:
    return Target(
        format_name,
        lambda: (_dumped(sample()),),
        _from_file(
            "review.json",
            lambda path: read_review_files(format_name, path, keys=["p"], pull_request="p", agent="a"),
        ),
    )


def _of_reviewers(name: str, seed: Any, read: Callable[[JsonFile, Any], object]) -> Target:
    """A file of the GitHub API from which findings are proposed; what is wrong in it is raised as a command would."""

    def parse(path: Path) -> object:
        problems = Problems()
        file = JsonFile(path, problems, Irregularities())
        value = file.load()
        problems.raise_first()
        found = read(file, value)
        problems.raise_first()
        return found

    return Target(name, lambda: (_dumped(seed),), _from_file("p.json", parse))


REMARKS = [
    {"id": 1, "path": "a.py", "original_line": 4, "original_start_line": 2, "original_commit_id": HEAD,
     "side": "RIGHT", "start_side": "RIGHT", "body": "Racy.", "user": {"login": "ann", "type": "User"}},
    {"id": 2, "in_reply_to_id": 1, "body": "Yes.", "user": {"login": "ben"}},
]  # fmt: skip
COMMITS = [
    {"sha": sha, "parents": [{"sha": BASE}], "author": {"login": "ann"},
     "commit": {"message": "Fix it", "author": {"email": "ann@example.org"}}}
    for sha in (HEAD, "c" * 40)
]  # fmt: skip
PROPOSALS = {
    "format": "crb.proposals/1", "corpus": "c", "corpus_fingerprint": "f", "origin": "human_review",
    "producers": [{"name": "people", "version": "1", "configuration": {"a": "b"}}],
    "proposals": [{"pull_request": "p", "file": "a.py", "start_line": 1, "end_line": 2, "message": "m",
                   "producer": "people", "source": {"type": "review_comment"}}],
    "left_out": [{"kind": "k", "problem": "p", "file": "x.json", "field": "[1]"}],
}  # fmt: skip


@cache
def _corpus_files() -> dict[str, bytes]:
    with TemporaryDirectory(prefix="fuzz-") as name:
        root = write_corpus(Path(name) / "corpus")
        seal_corpus(root)
        return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def _showcase(suffix: str) -> Target:
    """Every file of a text corpus with this ending, damaged one at a time."""

    def names() -> list[str]:
        return [name for name in _corpus_files() if name.endswith(suffix)]

    def parse(folder: Path, data: bytes) -> object:
        # The number of the file is the first byte, so that one document says which file it takes the place of.
        chosen = names()[data[0] % len(names())] if data else names()[0]
        for name, content in _corpus_files().items():
            path = folder / "corpus" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data[1:] if name == chosen else content)
        return read_showcase(folder / "corpus")

    return Target(
        f"text corpus *{suffix}",
        lambda: tuple(bytes([number]) + _corpus_files()[name] for number, name in enumerate(names())),
        parse,
    )


TIMELINES = {
    "format": "crb.timelines/1",
    "tools": {"t": {"bots": ["t-bot"], "start": "last_human_comment"}},
    "reviews": [
        {"tool": "t", "repo": "o/n", "pr_url": "https://github.com/o/n/pull/1", "created_at": "2026-01-05T09:00:00Z",
         "timeline": [
             {"event": "commented", "created_at": "2026-01-05T09:01:00Z", "user": {"login": "ann"}},
             {"event": "reviewed", "submitted_at": "2026-01-05T09:05:00Z", "user": {"login": "t-bot"}},
         ],
         "body_edits": [{"editor": {"login": "t-bot"}, "edited_at": "2026-01-05T09:02:00Z"}]},
    ],
}  # fmt: skip

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("json", lambda: (_dumped(FINDINGS), b'[2.5e3, "\\u00e9"]'), lambda _, data: load_json(data, "x")),
        Target(
            "findings.json",
            lambda: (_dumped(FINDINGS),),
            lambda _, data: validate_findings(data, PULL_REQUEST, lambda *_: True),
        ),
        Target("agent.toml", _agent_manifests, lambda _, data: parse_agent_toml(data)),
        Target(
            "reviewbench agent",
            lambda: (_dumped(MANIFEST),),
            lambda _, data: parse_reviewbench_agent(data),
        ),
        Target("bundle", lambda: (_dumped(BUNDLE),), lambda _, data: read_bundle(data, "bundle.json")),
        Target("recording", lambda: (_dumped(RECORDING),), _from_file("recording.json", FileAnswers)),
        Target(
            "labels",
            lambda: (
                LABELS_CSV,
                _dumped({"format": "crb.labels/1", "rater": "ann",
                         "labels": [{"pull_request": "p", "finding": "f", "tp_fp": "tp"}]}),
            ),
            _from_file("labels.csv", read_labels),
        ),
        Target("diff", lambda: (DIFF,), lambda _, data: DiffIndex.parse(data, "diff.patch")),
        Target("timelines", lambda: (_dumped(TIMELINES),), _from_file("timelines.json", read_speed)),
        Target("archive", lambda: (_archive(),), _from_file("sweep.tar", _verify)),
        Target("backup", lambda: (_backup(),), _from_file("b.tar", _restore)),
        _review_file("sarif", samples.sarif),
        _review_file("rdjson", samples.rdjson),
        _review_file("github-review-comments", samples.github_comments),
        _review_file("gitlab-code-quality", samples.gitlab_report),
        _of_reviewers(
            "reviewers' comments",
            REMARKS,
            lambda file, value: read_remarks(file, value, Places(file=file, agent="people")),
        ),
        _of_reviewers("pull commits", COMMITS, lambda file, value: read_follow_ups(file, value, HEAD)),
        Target(
            "proposals",
            lambda: (_dumped(PROPOSALS),),
            _from_file("p.json", lambda path: read_proposals(path, keys=["p"])),
        ),
        *(_benchmark(name) for name in samples.benchmark_files()),
        *(_reviewbench(name) for name in samples.rb_files()),
        _showcase(".json"),
        _showcase(".toml"),
        _showcase(".patch"),
    )
}  # fmt: skip


@contextmanager
def own_folder() -> Iterator[Path]:
    """A folder for one document; nothing that a parser writes there outlives it."""
    with TemporaryDirectory(prefix="fuzz-") as name:
        yield Path(name)

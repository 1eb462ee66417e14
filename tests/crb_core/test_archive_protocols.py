"""Archives of the other two protocols: counted by their own definitions, verified by them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from crb_core.agent import ModelRole
from crb_core.bundled import bundled
from crb_core.corpus import Corpus, CorpusEntry
from crb_core.finding import CandidateFinding, GoldenFinding, Label, TpFp
from crb_core.formats.archive_verify import verify_archive
from crb_core.formats.imported import ImportedCandidate, ImportedJudgment, ImportedPair, ImportedReview
from crb_core.matching import Classification
from crb_core.pull_request import PullRequest
from crb_core.store import open_store
from crb_core.store.comment_boards import Options, build_rows
from crb_core.store.imports import import_corpus, import_reviews
from crb_core.store.results import find_judge
from crb_core.store.sweeps import find_sweep
from tests.crb_core.archived import (
    SWEEP,
    bump,
    contents,
    edited,
    export,
    golden,
    leaves,
    pull_request,
    rewrite,
    spoil_and_verify,
)


def store_of(home: Path, corpus: Corpus, reviews: list[ImportedReview]) -> None:
    home.mkdir()
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.write() as connection:
        corpus_id = import_corpus(connection, corpus, {"files": {}}, "x").corpus_id
        import_reviews(connection, reviews, name=SWEEP, corpus_id=corpus_id, format_name="x", record={"files": {}})
    store.close()


def rows(path: Path) -> list[dict[str, Any]]:
    name = next(name for name in contents(path) if name.startswith("results/"))
    found: list[dict[str, Any]] = json.loads(contents(path)[name])["rows"]
    return found


def check_forgeries(path: Path, tmp_path: Path) -> None:
    """Every number of every row, changed and hashed anew, is found."""
    name = next(name for name in contents(path) if name.startswith("results/"))
    data = contents(path)[name]
    for place in leaves(json.loads(data))[::7]:
        forged = rewrite(path, tmp_path / "x.tar", {name: edited(data, None, lambda value, at=place: bump(value, at))})
        assert [each.file for each in verify_archive(forged).differences] == [name], place


def test_golden_comments_are_counted_both_ways(tmp_path: Path) -> None:
    """Strict with profile and dedup groups, compatible from the recorded lists (rules 18 and 19)."""
    comments = tuple(
        GoldenFinding(
            message=text,
            producer="human_review",
            label=Label(tp_fp=TpFp.TP, severity="high", category=category),
        )
        for text, category in (("one", "bug"), ("two", "style"), ("three", None))
    )
    pr = PullRequest.model_validate(
        {
            "key": "acme_shop_1",
            "repo": "https://github.com/acme/shop",
            "number": 1,
            "base": None,
            "head": None,
            "title": "t",
        }
    )
    corpus = Corpus(
        name="comments",
        version="1",
        title="c",
        protocol="golden-comments",
        source="none",
        entries=(CorpusEntry(pull_request=pr, golden=comments),),
    )
    recorded = {
        "true_positives": [{"golden_comment": "one", "matched_candidate": "a"}],
        "false_positives": [{"candidate": "b"}, {"candidate": "/review"}],
        "false_negatives": [{"golden_comment": "two"}],
    }
    review = ImportedReview(
        agent="tool",
        pull_request=pr.key,
        candidates=tuple(
            ImportedCandidate(finding=CandidateFinding(message=text, producer="tool")) for text in ("a", "b", "c", "d")
        ),
        model_roles=(ModelRole(role="extraction", model="m"),),
        judgments=(
            ImportedJudgment(
                judge="m",
                description={"kind": "imported", "model": "m"},
                pairs=(ImportedPair(candidate=0, golden=0, probability=0.9),),
                document={
                    "recorded": recorded,
                    "dedup_groups": [[1, 2]],
                    "match_unrecorded": [3],
                    "golden_unjudged": [2],
                },
            ),
        ),
    )
    store_of(tmp_path / "farm", corpus, [review])
    out = tmp_path / "a.tar"
    export(tmp_path / "farm", out)
    assert verify_archive(out).differences == []
    row = rows(out)[0]
    assert [row["strict"][name] for name in ("tp", "fp", "fn", "golden_unjudged_count")] == [1, 1, 0, 1]
    assert [row["compatible"][name] for name in ("tp", "fp", "fn", "recall")] == [1, 2, 1, 0.5]
    check_forgeries(out, tmp_path)
    spoil_and_verify(out, tmp_path / "x.tar", times=150, seed=5, prefix="judgments/")


def test_a_judgment_that_failed_on_unnamed_pairs_has_no_strict_number(tmp_path: Path) -> None:
    """The archive says what the leaderboard says: null strictly, and the recorded lists as the public tool counts."""
    comment = GoldenFinding(message="one", producer="human_review", label=Label(tp_fp=TpFp.TP, category="bug"))
    pr = pull_request(1)
    corpus = Corpus(
        name="comments",
        version="1",
        title="c",
        protocol="golden-comments",
        source="none",
        entries=(CorpusEntry(pull_request=pr, golden=(comment,)),),
    )
    recorded = {"true_positives": [], "false_positives": [], "false_negatives": [{"golden_comment": "one"}]}
    judgment = ImportedJudgment(
        judge="m",
        description={"kind": "imported", "model": "m"},
        document={"recorded": recorded, "unscorable": "the judge failed on pairs that its record does not name"},
    )
    candidates = (ImportedCandidate(finding=CandidateFinding(message="a", producer="tool")),)
    home, out = tmp_path / "farm", tmp_path / "a.tar"
    store_of(
        home,
        corpus,
        [ImportedReview(agent="tool", pull_request=pr.key, candidates=candidates, judgments=(judgment,))],
    )
    export(home, out)
    assert verify_archive(out).differences == []
    archived = rows(out)[0]
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.read() as connection:
        sweep_id = find_sweep(connection, SWEEP).id
        judge = find_judge(connection, sweep_id, None)
    (shown,), _ = build_rows(store, sweep_id, judge, Options())
    store.close()
    names = ("tp", "fp", "fn", "precision", "recall", "f")
    assert [archived["strict"][name] for name in names] == [shown.figures[name] for name in names] == [None] * 6
    assert archived["strict"]["problems"] == shown.figures["problems"]
    assert (archived["rank"], archived["ranked"], shown.rank) == (None, False, None)
    assert [archived["compatible"][name] for name in ("tp", "fp", "fn", "recall")] == [0, 0, 1, 0.0]
    trial = next(name for name in contents(out) if name.startswith("judgments/"))
    assert json.loads(contents(out)[trial].splitlines()[0])["metrics"]["f"] is None


def test_answer_keys_have_defects_and_trade_offs(tmp_path: Path) -> None:
    """Found, intended and unkeyed are in the claims; precision is null after a partial pass."""
    entry = CorpusEntry(pull_request=pull_request(1), golden=(golden("d", 5), golden("e", 40), golden("t", 20, "fp")))
    corpus = Corpus(name="keyed", version="1", title="k", protocol="answer-key", source="none", entries=(entry,))
    candidates = tuple(
        ImportedCandidate(
            finding=CandidateFinding(file="a.py", start_line=line, end_line=line, message=text, producer="tool")
        )
        for text, line in (("x", 6), ("y", 21), ("z", 90))
    )

    def review(number: int, labels: tuple[Classification, ...]) -> ImportedReview:
        return ImportedReview(
            agent="tool",
            pull_request=entry.pull_request.key,
            candidates=candidates,
            round=number,
            review_ms=100.0 * number,
            judgments=(
                ImportedJudgment(
                    judge="key",
                    description={"name": "key"},
                    classifies=True,
                    pairs=(ImportedPair(candidate=0, golden=0), ImportedPair(candidate=1, golden=2)),
                    classifications=labels,
                ),
            ),
        )

    full = (Classification(candidate=2, label=Label(tp_fp=TpFp.FP, severity="low", category="testing")),)
    store_of(tmp_path / "farm", corpus, [review(1, full), review(2, ())])
    out = tmp_path / "a.tar"
    export(tmp_path / "farm", out)
    assert verify_archive(out).differences == []
    first = next(data for name, data in contents(out).items() if name.startswith("judgments/"))
    assert json.loads(first)["claims"] == {"claimed": {"0": 0}, "intended": {"1": 2}, "found": [0], "unkeyed": [2]}
    row = rows(out)[0]
    assert [each["score"]["micro"]["overall"]["precision"] for each in row["rounds"]] == [0.5, None]
    assert (row["micro"]["recall"]["mean"], row["micro"]["precision"]["reason"]) == (0.5, "undefined in round 2")
    assert row["duration"]["mean_ms"] == 150.0
    check_forgeries(out, tmp_path)


def test_prompts_come_with_their_texts(tmp_path: Path) -> None:
    """A prompt of that very digest is in the archive; one of another digest is named and said to be missing."""
    text = (bundled("prompts") / "matcher.md").read_bytes()
    digest = hashlib.sha256(text).hexdigest()
    known = {"matcher": {"version": 1, "sha256": digest}, "classifier": {"version": 1, "sha256": "0" * 64}}
    judgment = ImportedJudgment(judge="asked", description={"requests": {"prompts": known}})
    entry = CorpusEntry(pull_request=pull_request(1), golden=(golden("d", 5),))
    corpus = Corpus(name="little", version="1", title="l", source="none", entries=(entry,))
    review = ImportedReview(agent="tool", pull_request="pr-1", candidates=(), judgments=(judgment,))
    store_of(tmp_path / "farm", corpus, [review])
    out = tmp_path / "a.tar"
    export(tmp_path / "farm", out)
    name = f"prompts/matcher-{digest[:12]}.md"
    assert contents(out)[name] == text
    result = verify_archive(out)
    assert (result.differences, result.notes) == ([], ["prompt classifier of judge asked is known by its SHA-256 only"])
    forged = rewrite(out, tmp_path / "x.tar", {name: text + b"Be kind."})
    assert [(each.file, each.field) for each in verify_archive(forged).differences] == [
        ("judges.jsonl", "prompts[1].sha256")
    ]

"""The reference judge answers from people's judgments, by content, and refuses everything else by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crb_core.corpus import Corpus, CorpusEntry
from crb_core.errors import InputError
from crb_core.finding import CandidateFinding, GoldenFinding, Label, TpFp
from crb_core.formats.recordings import candidate_id
from crb_core.matching import Classification, Correspondence
from crb_core.pull_request import PullRequest
from crb_worker.judge import Classifier, Judge, load_judge

KEY = "ledger-1"
GOLDEN = (
    GoldenFinding(
        file="a.py", start_line=3, end_line=4, message="The sum wraps.", producer="people", label=Label(tp_fp=TpFp.TP)
    ),
    GoldenFinding(
        file="a.py", start_line=9, end_line=9, message="The file leaks.", producer="people", label=Label(tp_fp=TpFp.TP)
    ),
    GoldenFinding(
        file="b.py", start_line=1, end_line=1, message="The doc is stale.", producer="people", label=Label(tp_fp="fp")
    ),
)
CANDIDATES = (
    CandidateFinding(file="a.py", start_line=3, end_line=9, message="Overflow, and a leak.", producer="careful"),
    CandidateFinding(file="c.py", start_line=2, end_line=2, message="Étrange \u202e nom.", producer="careful"),
)
LABEL = {"tp_fp": "tp", "severity": "high", "category": "correctness", "tp_fp_justification": "It wraps at 2**31."}


def id_of(position: int) -> str:
    return GOLDEN[position].finding_id(KEY)


def content() -> dict[str, Any]:
    return {
        "reviewer": "careful",
        "pull_request": KEY,
        "judgments": [
            {"finding": candidate_id(KEY, CANDIDATES[0]), "matches": [id_of(1), id_of(0)], "label": LABEL},
            {"finding": candidate_id(KEY, CANDIDATES[1]), "matches": [], "label": {"tp_fp": "fp"}},
        ],
    }


@pytest.fixture
def corpus() -> Corpus:
    pull_request = PullRequest(
        key=KEY, repo="https://github.com/owner/ledger", number=1, base="a" * 40, head="b" * 40, title="Sum"
    )
    return Corpus(
        name="small",
        version="1",
        title="Small",
        source="none",
        entries=(CorpusEntry(pull_request=pull_request, golden=GOLDEN),),
    )


def write(folder: Path, data: Any, reviewer: str = "careful") -> Path:
    path = folder / reviewer / f"{KEY}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), encoding="utf-8")
    return folder


@pytest.fixture
def judge(tmp_path: Path, corpus: Corpus) -> Classifier:
    found = load_judge("reference", corpus=corpus, reference_folder=write(tmp_path, content()))
    assert isinstance(found, Classifier)
    return found


class TestAnswers:
    def test_is_a_judge_that_classifies(self, judge: Classifier) -> None:
        """Name, fingerprint form and classifies are as the protocol asks."""
        assert isinstance(judge, Judge)
        assert (judge.name, judge.classifies) == ("reference", True)
        assert len(judge.fingerprint) == 14
        assert judge.fingerprint.startswith("j-")

    def test_one_record_for_every_candidate_in_order(self, judge: Classifier) -> None:
        """Matches come back as ascending positions; nothing matched is an empty record, not a missing one."""
        assert judge.match(KEY, CANDIDATES, GOLDEN, protocol="reviewbench") == (
            Correspondence(candidate=0, golden=(0, 1)),
            Correspondence(candidate=1, golden=()),
        )

    def test_positions_follow_the_lists_given(self, judge: Classifier) -> None:
        """Order, repetition and the producer's name change positions, not answers."""
        again = [candidate.model_copy(update={"producer": "x"}) for candidate in (*reversed(CANDIDATES), CANDIDATES[0])]
        found = judge.match(KEY, again, GOLDEN[::-1], protocol="reviewbench")
        assert [record.golden for record in found] == [(), (1, 2), (1, 2)]

    def test_goldens_left_out_are_left_out(self, judge: Classifier) -> None:
        """An ablation passes fewer goldens: the rest still match (rule 8)."""
        found = judge.match(KEY, CANDIDATES, GOLDEN[1:], protocol="reviewbench")
        assert [record.golden for record in found] == [(0,), ()]

    def test_labels_are_human(self, judge: Classifier) -> None:
        """Each asked position gets the person's label, and every axis that has a value says human."""
        found = judge.classify(KEY, CANDIDATES, [1, 0], protocol="reviewbench")
        assert found == (
            Classification(candidate=1, label=Label(tp_fp=TpFp.FP, provenance={"tp_fp": "human"})),
            Classification(
                candidate=0,
                label=Label(**LABEL, provenance={"tp_fp": "human", "severity": "human", "category": "human"}),
            ),
        )

    def test_empty_lists(self, judge: Classifier) -> None:
        """An empty review has no records, an empty golden set matches nothing."""
        assert judge.match(KEY, [], GOLDEN, protocol="reviewbench") == ()
        assert judge.match(KEY, CANDIDATES[:1], [], protocol="reviewbench") == (Correspondence(candidate=0, golden=()),)


class TestRefusals:
    @pytest.mark.parametrize(
        "change",
        [
            {"message": "Overflow, and a leak!"},
            {"start_line": 2},
            {"end_line": 10},
            {"file": "b.py"},
            {"message": "x" * 100_000},
            {"message": "\ud800"},
        ],
    )
    def test_an_unknown_finding_is_named(self, judge: Classifier, change: dict[str, Any]) -> None:
        """Any change of content makes another finding, for which nobody's word is made up."""
        other = CANDIDATES[0].model_copy(update=change)
        with pytest.raises(InputError, match="covers only the findings of the recorded reviewers") as caught:
            judge.match(KEY, [CANDIDATES[1], other], GOLDEN, protocol="reviewbench")
        assert candidate_id(KEY, other) in str(caught.value)
        assert len(str(caught.value)) < 500
        with pytest.raises(InputError, match="recorded reviewers"):
            judge.classify(KEY, [other], [0], protocol="reviewbench")

    def test_another_pull_request(self, judge: Classifier) -> None:
        """The same text in another pull request is another finding."""
        with pytest.raises(InputError, match="other-2"):
            judge.match("other-2", CANDIDATES, GOLDEN, protocol="reviewbench")

    def test_an_unknown_protocol(self, judge: Classifier) -> None:
        """A protocol nobody defined is refused, even with nothing to match."""
        with pytest.raises(InputError, match="protocol 'review-bench' is unknown"):
            judge.match(KEY, [], [], protocol="review-bench")

    def test_a_match_across_files(self, tmp_path: Path, corpus: Corpus) -> None:
        """reviewbench never compares different files, so such a judgment is a mistake."""
        data = content()
        data["judgments"][1]["matches"] = [id_of(2)]
        judge = load_judge("reference", corpus=corpus, reference_folder=write(tmp_path, data))
        with pytest.raises(InputError, match="does not compare"):
            judge.match(KEY, CANDIDATES, GOLDEN, protocol="reviewbench")

    @pytest.mark.parametrize(
        ("change", "problem", "field"),
        [
            (lambda data: data["judgments"][0].update(finding=0), "by position", "judgments[0]"),
            (lambda data: data["judgments"][1].update(matches=[1]), "--seal", "judgments[1]"),
            (
                lambda data: data["judgments"][1].update(matches=["g-000000000000"]),
                "no golden",
                "judgments[1].matches[0]",
            ),
            (lambda data: data["judgments"][1].update(matches=["g-1"]), "not a golden id", "judgments[1].matches[0]"),
            (lambda data: data["judgments"][0].update(matches=[id_of(0)] * 2), "named twice", "judgments[0].matches"),
            (lambda data: data["judgments"][0].update(finding="c-XYZ"), "not a candidate id", "judgments[0].finding"),
            (lambda data: data["judgments"][0].update(label={}), "label", "judgments[0].label.tp_fp"),
            (lambda data: data["judgments"][0].update(label={"tp_fp": "maybe"}), "label", "judgments[0].label.tp_fp"),
            (
                lambda data: data["judgments"][0].update(label={**LABEL, "mood": "x"}),
                "label",
                "judgments[0].label.mood",
            ),
            (lambda data: data["judgments"][0].pop("label"), "not valid", "judgments[0].label"),
            (lambda data: data["judgments"].append(None), "not valid", "judgments[2]"),
            (lambda data: data["judgments"].append({**data["judgments"][0], "matches": []}), "twice", "judgments[2]"),
            (lambda data: data.update(reviewer="eager"), "place says 'careful'", "reviewer"),
            (lambda data: data.update(pull_request="x"), "place says 'ledger-1'", "pull_request"),
            (lambda data: data.update(judgments={}), "list of judgments", ""),
            (lambda data: data.update(more=1), "list of judgments", ""),
        ],
    )
    def test_bad_files(
        self, tmp_path: Path, corpus: Corpus, change: Callable[[Any], Any], problem: str, field: str
    ) -> None:
        """Each fault of a file is an error with the file, the field and a plain sentence."""
        data = content()
        change(data)
        with pytest.raises(InputError) as caught:
            load_judge("reference", corpus=corpus, reference_folder=write(tmp_path, data))
        assert problem in str(caught.value)
        assert caught.value.where is not None
        assert str(caught.value.where.file).endswith(f"careful/{KEY}.json")
        assert (caught.value.where.field or "") == field

    def test_no_files(self, tmp_path: Path, corpus: Corpus) -> None:
        """A folder without judgments is an error, not a judge that knows nothing."""
        with pytest.raises(InputError, match="no reference judgments"):
            load_judge("reference", corpus=corpus, reference_folder=tmp_path)
        with pytest.raises(InputError, match="corpus small has no reference judgments"):
            load_judge("reference", corpus=corpus)


class TestFingerprint:
    def test_layout_does_not_matter_and_content_does(self, tmp_path: Path, corpus: Corpus) -> None:
        """Spaces and key order leave it; a match or a word of a label changes it."""
        data = content()
        first = load_judge("reference", corpus=corpus, reference_folder=write(tmp_path / "a", data)).fingerprint
        turned = dict(reversed(data.items()))
        (write(tmp_path / "b", {}) / "careful" / f"{KEY}.json").write_text(json.dumps(turned, indent=4))
        assert load_judge("reference", corpus=corpus, reference_folder=tmp_path / "b").fingerprint == first
        data["judgments"][0]["matches"].pop()
        other = load_judge("reference", corpus=corpus, reference_folder=write(tmp_path / "c", data)).fingerprint
        assert other != first

    def test_two_reviewers_with_one_remark(self, tmp_path: Path, corpus: Corpus) -> None:
        """Equal findings of two reviewers are one content id; their judgments must be equal too."""
        data = {**content(), "reviewer": "eager"}
        write(tmp_path, content())
        load_judge("reference", corpus=corpus, reference_folder=write(tmp_path, data, "eager"))
        data["judgments"][0]["label"] = {"tp_fp": "fp"}
        with pytest.raises(InputError, match="judged twice, and differently"):
            load_judge("reference", corpus=corpus, reference_folder=write(tmp_path, data, "eager"))

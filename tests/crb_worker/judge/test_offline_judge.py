"""The offline judge: right on plain cases, blind to what must not matter, steady under hostile texts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crb_core.errors import InputError
from crb_core.finding import CandidateFinding, GoldenFinding, Label, TpFp
from crb_core.matching import Correspondence
from crb_worker.judge.features import FEATURES, Vocabulary, pair_features, words
from crb_worker.judge.lines import line_odds
from crb_worker.judge.offline import OfflineJudge
from crb_worker.judge.offline_model import MODEL_FILE, Forest, OfflineModel, Tree

TEXTS = (
    "`parse_amount` truncates cents, because `int(float(text) * 100)` rounds down; use Decimal.",
    "The retry loop in `send_batch` sleeps while it holds the lock, so all other workers wait.",
    "The README still names the option `--dry-run`, which this change removes.",
    "`load_user` interpolates the name into the SQL text; pass it as a parameter.",
)
SAME = (
    "Money is lost in parse_amount: multiplying a float by 100 and truncating with int drops cents. Prefer Decimal.",
    "send_batch calls sleep inside the locked section during a retry, which blocks every other worker.",
    "Docs are stale: --dry-run no longer exists but README mentions the option.",
    "SQL injection in load_user, the name is put into the query by interpolation instead of a parameter.",
)
SURROGATE_FREE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60).filter(
    lambda text: bool(text.strip())
)


def golden(message: str, file: str | None = None, line: int | None = None) -> GoldenFinding:
    return GoldenFinding(
        file=file, start_line=line, end_line=line, message=message, producer="people", label=Label(tp_fp=TpFp.TP)
    )


def candidate(message: str, file: str | None = None, line: int | None = None) -> CandidateFinding:
    return CandidateFinding(file=file, start_line=line, end_line=line, message=message, producer="tool")


@pytest.fixture(scope="module")
def judge() -> OfflineJudge:
    return OfflineJudge(TEXTS)


class TestMatching:
    def test_paraphrases_match_their_own_golden_only(self, judge: OfflineJudge) -> None:
        """Four remarks in other words find the four goldens, each its own."""
        found = judge.match(
            "pr", [candidate(text) for text in SAME], [golden(t) for t in TEXTS], protocol="golden-comments"
        )
        assert [record.golden for record in found] == [(0,), (1,), (2,), (3,)]

    def test_every_candidate_has_a_record_with_probabilities(self, judge: OfflineJudge) -> None:
        """Records are in order, one a candidate; a probability stands beside every match and reaches the threshold."""
        found = judge.match(
            "pr", [candidate("Nice work."), candidate(SAME[0])], [golden(t) for t in TEXTS], protocol="golden-comments"
        )
        assert found[0] == Correspondence(candidate=0, golden=(), probabilities=())
        assert found[1].golden == (0,)
        assert found[1].probabilities is not None
        assert found[1].probabilities[0] >= judge.threshold

    def test_other_files_never_match(self, judge: OfflineJudge) -> None:
        """reviewbench: word for word the same text in another file is no match; in the same file it is."""
        findings = [candidate(TEXTS[0], "b.py", 3), candidate(TEXTS[0], "a.py", 3)]
        found = judge.match("pr", findings, [golden(TEXTS[0], "a.py", 3)], protocol="reviewbench")
        assert [record.golden for record in found] == [(), (0,)]

    def test_lines_move_the_odds(self, judge: OfflineJudge) -> None:
        """The nearer the lines, the likelier one issue; far away is less likely than without lines."""
        goldens = [golden(TEXTS[0], "a.py", 100)]
        chances = [
            judge.probabilities([candidate(SAME[0], "a.py", line)], goldens, protocol="reviewbench")[(0, 0)]
            for line in (100, 103, 110, 500)
        ]
        assert chances == sorted(chances, reverse=True)
        assert len(set(chances)) == 4

    def test_wide_findings_gain_nothing(self) -> None:
        """A finding over a whole file overlaps everything and so says nothing."""
        wide = CandidateFinding(file="a.py", start_line=1, end_line=10_000, message="m", producer="p")
        assert line_odds(wide, golden("m", "a.py", 50)) == 1.0
        assert line_odds(candidate("m", "a.py"), golden("m", "a.py", 50)) == 1.0
        assert line_odds(candidate("m", "a.py", 50), golden("m", "a.py", 50)) > 1.0

    def test_empty_sides(self, judge: OfflineJudge) -> None:
        """No candidates: no records. No goldens: records without matches."""
        assert judge.match("pr", [], [golden(TEXTS[0])], protocol="golden-comments") == ()
        assert judge.match("pr", [candidate("x")], [], protocol="golden-comments") == (
            Correspondence(candidate=0, golden=(), probabilities=()),
        )

    def test_an_unknown_protocol_is_refused(self, judge: OfflineJudge) -> None:
        """Also where there is nothing to compare."""
        with pytest.raises(InputError, match="unknown"):
            judge.match("pr", [], [], protocol="")


class TestSteadiness:
    def test_order_does_not_matter(self, judge: OfflineJudge) -> None:
        """Shuffled candidates and goldens get the same probabilities."""
        candidates, goldens = [candidate(text) for text in SAME], [golden(text) for text in TEXTS]
        straight = judge.probabilities(candidates, goldens, protocol="golden-comments")
        turned = judge.probabilities(candidates[::-1], goldens[::-1], protocol="golden-comments")
        assert straight == {(3 - place, 3 - position): value for (place, position), value in turned.items()}

    def test_hidden_characters_do_not_matter(self, judge: OfflineJudge) -> None:
        """Zero-width characters and full-width letters read as what a person sees."""
        hidden = "\u200b".join(SAME[0]).replace("Money", "\uff2d\uff4f\uff4e\uff45\uff59")
        assert [word.lower() for word in words(hidden)] == [word.lower() for word in words(SAME[0])]

    def test_another_process_gives_the_same_bytes(self, judge: OfflineJudge) -> None:
        """No answer depends on the hash seed of a process."""
        program = (
            "import json, sys\nfrom crb_worker.judge.features import Vocabulary, pair_features\n"
            "a, b = json.load(sys.stdin)\n"
            "f = pair_features(a, b, [(i, j) for i in range(4) for j in range(4)], Vocabulary(b))\n"
            "print([v.hex() for k in f for v in f[k]], Vocabulary(b).digest)"
        )
        outputs = {
            subprocess.run(
                [sys.executable, "-c", program],
                input=json.dumps([SAME, TEXTS]),
                env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[3])},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for seed in ("1", "2")
        }
        assert len(outputs) == 1

    def test_a_huge_message(self, judge: OfflineJudge) -> None:
        """A message of 100 kB that holds every golden's words beside noise does not match them all."""
        flood = " ".join(f"{word}{number}" for number in range(4000) for word in ("alpha", "beta")) + " ".join(TEXTS)
        found = judge.match("pr", [candidate(flood)], [golden(text) for text in TEXTS], protocol="golden-comments")
        assert len(found[0].golden) < len(TEXTS)

    @settings(max_examples=40, deadline=None)
    @given(st.lists(SURROGATE_FREE, max_size=4), st.lists(SURROGATE_FREE, max_size=4))
    def test_any_text(self, left: list[str], right: list[str]) -> None:
        """Whatever is written, every pair has a probability from 0 to 1, and features stay within -1 and 1."""
        judge = OfflineJudge(right)
        pairs = [(place, position) for place in range(len(left)) for position in range(len(right))]
        chances = judge.probabilities(
            [candidate(text) for text in left], [golden(text) for text in right], protocol="golden-comments"
        )
        assert list(chances) == pairs
        assert all(0 <= chance <= 1 for chance in chances.values())
        for values in pair_features(left, right, pairs, Vocabulary(right)).values():
            assert len(values) == len(FEATURES)
            assert all(-1 - 1e-9 <= value <= 1 + 1e-9 for value in values)


class TestFingerprint:
    def test_what_decides_an_answer_is_in_it(self) -> None:
        """Golden texts, threshold and trees change it; their repetition and order do not."""
        plain = OfflineJudge(TEXTS)
        assert OfflineJudge([*TEXTS[::-1], TEXTS[0]]).fingerprint == plain.fingerprint
        fewer_trees = plain.model.model_copy(update={"trees": plain.model.trees[:-1]})
        others = [OfflineJudge(TEXTS[:3]), OfflineJudge(TEXTS, threshold=0.4), OfflineJudge(TEXTS, model=fewer_trees)]
        assert len({plain.fingerprint, *(other.fingerprint for other in others)}) == 4

    def test_measured_agreement_is_not(self) -> None:
        """The record of a measurement does not make another judge."""
        model = OfflineModel.load()
        other = model.model_copy(update={"agreement": {}})
        assert OfflineJudge(TEXTS, model=other).fingerprint == OfflineJudge(TEXTS).fingerprint


def walk(tree: Tree, features: list[float], node: int = 0) -> float:
    if tree.feature[node] == -1:
        return tree.value[node]
    left = features[tree.feature[node]] <= tree.threshold[node]
    return walk(tree, features, tree.left[node] if left else tree.right[node])


class TestModel:
    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.lists(st.floats(-1, 1), min_size=len(FEATURES), max_size=len(FEATURES)), max_size=5))
    def test_the_mean_of_all_trees(self, rows: list[list[float]]) -> None:
        """Walking all trees at once answers what walking each of them does."""
        trees = OfflineModel.load().trees
        expected = [sum(walk(tree, row) for tree in trees) / len(trees) for row in rows]
        assert Forest(trees).probabilities(rows) == pytest.approx(expected, abs=6e-5)

    def test_one_tree(self) -> None:
        """At most the threshold goes left, more goes right; a lone leaf answers always."""
        split = Tree(
            feature=(0, -1, -1), threshold=(0.5, 0, 0), left=(1, -1, -1), right=(2, -1, -1), value=(0, 0.25, 0.75)
        )
        leaf = Tree(feature=(-1,), threshold=(0,), left=(-1,), right=(-1,), value=(1,))
        assert Forest([split]).probabilities([[0.5], [0.6]]) == [0.25, 0.75]
        assert Forest([split, leaf]).probabilities([[0.5], [0.6]]) == [0.625, 0.875]
        assert Forest([leaf]).probabilities([]) == []

    def test_what_the_package_says_of_itself(self) -> None:
        """The stored model names its data's hash and its agreement on repositories it had not seen: at least 0.80."""
        model = OfflineModel.load()
        assert model.agreement["method"] == "leave-one-repository-out"
        assert model.agreement["pooled"]["kappa"] >= 0.80
        assert len(model.agreement["judges"]) == 3
        assert len(model.training.examples) == 30

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ({"threshold": 1.5}, "less than 1"),
            ({"features": ["x"]}, "other features"),
            ({"trees": []}, "at least 1 item"),
            ({"surprise": 1}, "not permitted"),
            ({"trees": [{"feature": [0], "threshold": [0], "left": [0], "right": [0], "value": [0]}]}, "children"),
            ({"trees": [{"feature": [99], "threshold": [0], "left": [1], "right": [1], "value": [0]}]}, "feature 99"),
            ({"trees": [{"feature": [-1], "threshold": [], "left": [0], "right": [0], "value": [0]}]}, "one length"),
        ],
    )
    def test_a_damaged_file_is_refused(self, tmp_path: Path, change: dict[str, object], problem: str) -> None:
        """A model that cannot be evaluated is an error with file and field, never a silent fallback."""
        path = tmp_path / "model.json"
        path.write_text(json.dumps({**json.loads(MODEL_FILE.read_text()), **change}))
        with pytest.raises(InputError, match=problem) as caught:
            OfflineModel.load(path)
        assert caught.value.where is not None
        assert caught.value.where.file == str(path)

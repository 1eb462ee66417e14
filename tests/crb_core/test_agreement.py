"""Agreement between judges: worked examples, undefined cases, and the interval's properties."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crb_core.agreement import Agreement, agreement, match_agreement
from crb_core.errors import InputError
from crb_core.finding import CandidateFinding, GoldenFinding, Label, TpFp
from crb_core.matching import Correspondence, JudgedPullRequest


def golden(file: str, message: str = "a golden") -> GoldenFinding:
    return GoldenFinding(
        file=file, start_line=1, end_line=1, message=message, producer="people", label=Label(tp_fp=TpFp.TP)
    )


def candidate(file: str, message: str = "a candidate") -> CandidateFinding:
    return CandidateFinding(file=file, start_line=1, end_line=1, message=message, producer="tool")


def same_file(left: CandidateFinding, right: GoldenFinding) -> bool:
    return left.file == right.file


def judged(key: str, links: dict[int, tuple[int, ...]]) -> JudgedPullRequest:
    return JudgedPullRequest(
        key=key,
        golden=(golden("a.py"), golden("b.py"), golden("c.py")),
        candidates=(candidate("a.py"), candidate("a.py"), candidate("b.py")),
        correspondences=tuple(Correspondence(candidate=place, golden=found) for place, found in links.items()),
    )


class TestKappa:
    def test_worked_example(self) -> None:
        """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: raw 0.7, chance 0.5, kappa 0.4."""
        answers = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
        found = agreement([left for left, _ in answers], [right for _, right in answers], resamples=500)
        assert (found.n, found.clusters, found.raw) == (50, 50, 0.7)
        assert found.kappa == pytest.approx(0.4)
        assert found.kappa_low is not None
        assert found.kappa_high is not None
        assert found.kappa_low < 0.4 < found.kappa_high

    def test_three_categories(self) -> None:
        """Kappa counts every category: rows (2,1,0), (0,2,1), (1,0,2) give raw 6/9, chance 1/3, kappa 1/2."""
        table = {("x", "x"): 2, ("x", "y"): 1, ("y", "y"): 2, ("y", "z"): 1, ("z", "x"): 1, ("z", "z"): 2}
        answers = [pair for pair, count in table.items() for _ in range(count)]
        found = agreement([left for left, _ in answers], [right for _, right in answers], resamples=10)
        assert found.raw == pytest.approx(2 / 3)
        assert found.kappa == pytest.approx(0.5)

    def test_full_agreement_is_one(self) -> None:
        """Equal answers of two kinds are agreement beyond chance: 1."""
        found = agreement([1, 0, 1, 0], [1, 0, 1, 0], clusters=["a", "a", "b", "b"])
        assert found == Agreement(n=4, clusters=2, raw=1.0, kappa=1.0, kappa_low=1.0, kappa_high=1.0)

    def test_one_kind_of_answer_has_no_kappa(self) -> None:
        """Where chance alone agrees fully, kappa is null, not 0 and not 1."""
        found = agreement([True] * 9, [True] * 9)
        assert found == Agreement(n=9, clusters=9, raw=1.0, kappa=None, kappa_low=None, kappa_high=None)

    def test_nothing_to_compare_is_null(self) -> None:
        """No questions: n is 0 and every ratio null."""
        assert agreement([], []) == Agreement(n=0, clusters=0, raw=None, kappa=None, kappa_low=None, kappa_high=None)

    def test_one_pull_request_has_no_interval(self) -> None:
        """One cluster says nothing about others."""
        found = agreement([1, 0, 1], [1, 0, 0], clusters=["a"] * 3)
        assert found.kappa == pytest.approx(0.4)
        assert (found.kappa_low, found.kappa_high) == (None, None)

    def test_an_interval_of_mostly_undefined_resamples_is_null(self) -> None:
        """Two clusters, one of them without a no: half of the resamples are undefined, so no interval is claimed."""
        found = agreement([1, 1, 0], [1, 1, 0], clusters=["a", "a", "b"])
        assert found.kappa == 1.0
        assert (found.kappa_low, found.kappa_high) == (None, None)

    def test_unequal_lengths_are_refused(self) -> None:
        """Answers that do not pair up are an error that gives the numbers."""
        with pytest.raises(InputError, match="2 and 1 answers for 2 questions"):
            agreement([1, 0], [1], clusters=["a", "b"])

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("xyz"), st.sampled_from("pqr")), max_size=30))
    def test_properties(self, rows: list[tuple[str, str, str]]) -> None:
        """Symmetric in the judges, blind to order, at most 1, repeatable, and equal to the textbook formula."""
        first, second = [row[0] for row in rows], [row[1] for row in rows]
        clusters = [row[2] for row in rows]
        found = agreement(first, second, clusters=clusters, resamples=50)
        assert found == agreement(first, second, clusters=clusters, resamples=50)
        turned = agreement(second, first, clusters=clusters, resamples=50)
        assert (found.raw, found.kappa) == (turned.raw, turned.kappa)
        n = len(rows)
        if not n:
            return
        observed = sum(left == right for left, right in zip(first, second, strict=True)) / n
        chance = sum(first.count(name) / n * second.count(name) / n for name in "xyz")
        assert found.raw == pytest.approx(observed)
        if found.kappa is None:
            assert chance == pytest.approx(1)
        else:
            assert found.kappa == pytest.approx((observed - chance) / (1 - chance))
            assert found.kappa <= 1
        if found.kappa_low is not None and found.kappa_high is not None:
            assert found.kappa_low <= found.kappa_high


class TestMatches:
    def test_units(self) -> None:
        """Pairs are those in one file; a golden counts for coverage where some candidate is in its file."""
        left = judged("one", {0: (0,), 1: (), 2: (1,)})
        right = judged("one", {0: (), 1: (0,), 2: ()})
        found = match_agreement([(left, right)], comparable=same_file)
        assert (found.pairs.n, found.pairs.raw) == (3, 0.0)
        assert (found.covered.n, found.covered.raw) == (2, 0.5)

    def test_every_pair_where_there_are_no_files(self) -> None:
        """With a protocol that compares everything, three candidates and three goldens are nine pairs."""
        left = judged("one", {0: (0,)})
        found = match_agreement([(left, left)], comparable=lambda candidate, golden: True)
        assert (found.pairs.n, found.pairs.raw, found.pairs.kappa) == (9, 1.0, 1.0)

    def test_rounds_of_one_pull_request_are_one_cluster(self) -> None:
        """Three rounds of two pull requests are two clusters, because rounds are not independent."""
        trials = [(judged(key, {0: (0,)}), judged(key, {0: (0,), 2: (1,)})) for key in ("one", "two") * 3]
        found = match_agreement(trials, comparable=same_file, resamples=50)
        assert (found.pairs.n, found.pairs.clusters) == (18, 2)

    def test_different_trials_are_refused(self) -> None:
        """Judgments of other candidates, goldens or pull requests do not pair."""
        one, two = judged("one", {}), judged("two", {})
        other = one.model_copy(update={"candidates": one.candidates[:1]})
        for left, right in itertools.permutations([one, two, other], 2):
            with pytest.raises(InputError, match="not of the same trial"):
                match_agreement([(left, right)], comparable=same_file)

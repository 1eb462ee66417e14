"""A council decides by strict majority of the judges that responded, and names its ties."""

from __future__ import annotations

from typing import Any

from crb_core.council import Member, council_labels, council_matches
from crb_core.finding import Label
from crb_core.matching import Classification, Correspondence


def member(judge: str, pairs: dict[int, tuple[int, ...]], **more: Any) -> Member:
    links = tuple(Correspondence(candidate=place, golden=golden) for place, golden in pairs.items())
    return Member(judge=judge, correspondences=links, **more)


def labelled(judge: str, place: int, **axes: str) -> Member:
    label = Label.model_validate(axes)
    return Member(judge=judge, correspondences=(), classifications=(Classification(candidate=place, label=label),))


def test_two_of_three_match_one_of_three_does_not() -> None:
    """Each pair on its own; the share of the votes stands beside it, and who voted."""
    links, ties = council_matches(
        [member("a", {0: (0, 1)}), member("b", {0: (0,)}), member("c", {1: (1,)})], candidate_count=3
    )
    assert [(link.candidate, link.golden, link.probabilities) for link in links] == [
        (0, (0,), (0.6667,)),
        (1, (), ()),
        (2, (), ()),
    ]
    assert links[0].reasoning == "golden 0: a, b; not c"
    assert ties == ()


def test_half_is_a_tie_and_no_match() -> None:
    """One of two decides nothing, and the pair is named with its votes."""
    links, ties = council_matches([member("a", {0: (0,)}), member("b", {})], candidate_count=1)
    assert links[0].golden == ()
    assert [(tie.candidate, tie.golden, tie.votes) for tie in ties] == [(0, 0, {"a": "match", "b": "no match"})]


def test_an_open_golden_or_candidate_is_no_vote() -> None:
    """A judge that left a position open did not respond on it; a match that it recorded counts all the same."""
    open_golden = member("b", {}, open_golden=frozenset({0}))
    open_candidate = member("b", {}, open_candidates=frozenset({0}))
    for other in (open_golden, open_candidate):
        links, ties = council_matches([member("a", {0: (0,)}), other], candidate_count=1)
        assert (links[0].golden, links[0].probabilities, ties) == ((0,), (1.0,), ())
    recorded = member("b", {0: (0,)}, open_candidates=frozenset({0}))
    links, _ = council_matches([member("a", {}), recorded], candidate_count=1)
    assert links[0].golden == ()


def test_labels_axis_by_axis() -> None:
    """tp_fp by majority; an axis without one stays open and is named; the label says that the council made it."""
    members = [
        labelled("a", 0, tp_fp="tp", severity="high"),
        labelled("b", 0, tp_fp="tp", severity="low"),
        labelled("c", 0, tp_fp="fp", severity="medium"),
    ]
    (found,), ties = council_labels(members, [0], provenance="j-council")
    assert (found.label.tp_fp.value, found.label.severity) == ("tp", None)
    assert found.label.provenance == {"tp_fp": "j-council"}
    assert [(tie.axis, tie.votes) for tie in ties] == [("severity", {"a": "high", "b": "low", "c": "medium"})]


def test_no_majority_on_tp_or_fp_stays_unclassified() -> None:
    """Never a guess, never the first judge's word; nobody's label is no label either."""
    members = [labelled("a", 0, tp_fp="tp"), labelled("b", 0, tp_fp="fp")]
    found, ties = council_labels(members, [0, 1], provenance="j-council")
    assert found == ()
    assert [(tie.candidate, tie.axis) for tie in ties] == [(0, "tp_fp")]

"""People go over a golden set: provenance, what is kept of earlier labels, and the figures by hand."""

from __future__ import annotations

from typing import Any

import pytest

from crb_core.corpus import Corpus, CorpusEntry
from crb_core.errors import InputError
from crb_core.finding import GoldenFinding, Label
from crb_core.golden_sets import derived_corpus, provenance_counts, relabelled, stale_findings
from crb_core.label_audit import Audit, audit_labels
from crb_core.pull_request import PullRequest

KEY = "pr-1"
OLD, NEW = "j-00000000000a", "j-00000000000b"
SEVERITIES = ("high", "medium", "low")


def golden(message: str, by: str | None = OLD, **axes: Any) -> GoldenFinding:
    label = {"tp_fp": "tp", "severity": "low", "category": "correctness", **axes}
    return GoldenFinding.model_validate(
        {
            "file": "a.py",
            "start_line": 1,
            "end_line": 1,
            "message": message,
            "producer": "tool",
            "label": {
                **label,
                "tp_fp_justification": "It is so.",
                "severity_justification": "It is small.",
                "provenance": dict.fromkeys(label, by) if by else {},
            },
        }
    )


def corpus(*goldens: GoldenFinding) -> Corpus:
    pull_request = PullRequest(
        key=KEY, repo="https://github.com/a/b", number=1, base="a" * 40, head="b" * 40, title="t"
    )
    return Corpus(
        name="c",
        version="1",
        title="t",
        source="none",
        entries=(CorpusEntry(pull_request=pull_request, golden=goldens),),
    )


def audited(found: Corpus, answers: dict[int, dict[str, str]], *more: dict[int, dict[str, str]]) -> Audit:
    """``answers`` by position of the golden finding; each further one is another rater's."""
    raters = {
        f"rater {number}": {
            (KEY, found.entries[0].golden[place].finding_id(KEY)): given for place, given in each.items()
        }
        for number, each in enumerate((answers, *more))
    }
    return audit_labels(found, raters, severities=SEVERITIES)


def test_what_an_audit_does_to_a_label() -> None:
    """The same answer makes an axis human, another one human-corrected; what argued for another value goes and is kept

    under ``audit``; axes that nobody answered stay the classifier's.
    """
    found = corpus(golden("one"))
    audit = audited(found, {0: {"tp_fp": "fp", "category": "correctness"}})
    (made,) = audit.golden[KEY]
    assert made.label == Label.model_validate(
        {
            "tp_fp": "fp",
            "severity": "low",
            "category": "correctness",
            "severity_justification": "It is small.",
            "provenance": {"tp_fp": "human-corrected", "severity": OLD, "category": "human"},
        }
    )
    assert made.source["audit"] == [
        {"axis": "tp_fp", "by": ["rater 0"], "was": "tp", "was_by": OLD, "was_because": "It is so."},
        {"axis": "category", "by": ["rater 0"], "was": "correctness", "was_by": OLD},
    ]
    (change,) = audit.changes
    assert (change.axis, change.was, change.was_by, change.now) == ("tp_fp", "tp", OLD, "fp")
    assert made.finding_id(KEY) == found.entries[0].golden[0].finding_id(KEY)


def test_the_figures() -> None:
    """By hand: 3 of 4 on tp/fp, one tp was fp; severity 1 equal, 3 within one, 2 higher and 1 lower."""
    found = corpus(
        golden("one", severity="low"),
        golden("two", severity="low"),
        golden("three", severity="low"),
        golden("four", severity="high"),
        golden("by people", by="human"),
        golden("unknown", by=None, severity=None),
    )
    audit = audited(
        found,
        {
            0: {"tp_fp": "fp", "severity": "low"},
            1: {"tp_fp": "tp", "severity": "medium"},
            2: {"tp_fp": "tp", "severity": "high"},
            3: {"tp_fp": "tp", "severity": "medium"},
            4: {"tp_fp": "fp"},
            5: {"tp_fp": "tp", "severity": "high"},
        },
    )
    figures = {(each.axis, each.by): each for each in audit.axes}
    assert list(figures) == [("tp_fp", "human"), ("tp_fp", OLD), ("tp_fp", "not recorded"), ("severity", OLD)]
    of_classifier = figures["tp_fp", OLD]
    assert (of_classifier.n, of_classifier.equal, of_classifier.agreement) == (4, 3, 0.75)
    assert of_classifier.confusion == {"fp": {"tp": 1}, "tp": {"tp": 3}}
    assert of_classifier.within_one is None
    severity = figures["severity", OLD]
    assert (severity.n, severity.equal, severity.within_one) == (4, 1, 3)
    assert (severity.people_higher, severity.people_lower) == (2, 1)
    assert figures["tp_fp", "human"].equal == 0
    assert (audit.filled, audit.findings) == ({"severity": 1}, 6)


def test_corrected_stays_corrected() -> None:
    """Whoever confirms a corrected label later does not make it one that was right from the beginning."""
    first = audited(corpus(golden("one")), {0: {"severity": "high"}})
    again = audited(corpus(*first.golden[KEY]), {0: {"severity": "high"}})
    assert again.golden[KEY][0].label.provenance["severity"] == "human-corrected"
    assert [each["by"] for each in again.golden[KEY][0].source["audit"]] == [["rater 0"], ["rater 0"]]


def test_raters_who_agree_and_who_do_not() -> None:
    """Two raters with one answer are both named; two answers are settled by people, not here."""
    found = corpus(golden("one"))
    audit = audited(found, {0: {"severity": "high"}}, {0: {"severity": "high", "tp_fp": "tp"}})
    assert audit.golden[KEY][0].source["audit"][0]["by"] == ["rater 0", "rater 1"]
    with pytest.raises(InputError, match=r"rater 0 and rater 1 differ on severity .*: high and low"):
        audited(found, {0: {"severity": "high"}}, {0: {"severity": "low"}})


def test_what_is_refused() -> None:
    """Findings that are not there, and answers that are for candidates."""
    found = corpus(golden("one"))
    with pytest.raises(InputError, match="no golden finding g-nothing in pr-1"):
        audit_labels(found, {"a": {(KEY, "g-nothing"): {"tp_fp": "tp"}}}, severities=SEVERITIES)
    with pytest.raises(InputError, match="matches, which is for candidates"):
        audited(found, {0: {"matches": "none"}})


def test_stale_labels_are_those_of_another_classifier() -> None:
    """Neither people's labels, nor the present classifier's, nor those of which nobody recorded who gave them."""
    goldens = (golden("one"), golden("two", by="human"), golden("three", by=NEW), golden("four", by=None))
    mixed = audited(corpus(golden("five")), {0: {"tp_fp": "tp"}}).golden[KEY][0]
    found = stale_findings(corpus(*goldens, mixed).entries[0], NEW)
    assert [(each.position, each.axes) for each in found] == [
        (0, ("tp_fp", "severity", "category")),
        (4, ("severity", "category")),
    ]


def test_axes_without_a_value_can_be_filled() -> None:
    """Only the named ones; whoever gave the other axes does not matter."""
    goldens = (golden("one", by="human", severity=None), golden("two", by=None, category=None), golden("three"))
    entry = corpus(*goldens).entries[0]
    found = stale_findings(entry, NEW, others=False, absent=("severity", "category"))
    assert [(each.position, each.axes) for each in found] == [(0, ("severity",)), (1, ("category",))]
    assert stale_findings(entry, NEW, others=False) == ()


def test_relabelling_takes_only_the_named_axes() -> None:
    """Values, justifications and provenance of those axes; the rest stays."""
    label = Label.model_validate(
        {
            "tp_fp": "fp",
            "severity": "medium",
            "severity_justification": "Bigger.",
            "tp_fp_justification": "Not so.",
            "provenance": {"tp_fp": NEW, "severity": NEW},
        }
    )
    made, changes = relabelled(KEY, golden("one"), ("severity",), label)
    assert (made.label.tp_fp, made.label.tp_fp_justification) == ("tp", "It is so.")
    assert (made.label.severity, made.label.severity_justification) == ("medium", "Bigger.")
    assert made.label.provenance == {"tp_fp": OLD, "severity": NEW, "category": OLD}
    assert [(each.axis, each.was, each.now) for each in changes] == [("severity", "low", "medium")]


def test_who_gave_the_labels_of_a_corpus() -> None:
    """Counted by axis; values that are absent are nobody's."""
    found = corpus(golden("one"), golden("two", by="human"), golden("three", by=None, severity=None))
    assert provenance_counts(found) == {
        "tp_fp": {"human": 1, OLD: 1, "not recorded": 1},
        "severity": {"human": 1, OLD: 1},
        "category": {"human": 1, OLD: 1, "not recorded": 1},
    }


def test_a_derived_corpus_has_a_version_of_its_own() -> None:
    """Another golden set is another version, told once however often it was derived; the same one keeps it."""
    found = corpus(golden("one"))
    made = derived_corpus(found, "d", {KEY: [golden("two")]})
    again = derived_corpus(made, "e", {KEY: [golden("three")]})
    assert (made.version, again.version) == (f"1+golden.{made.fingerprint[:8]}", f"1+golden.{again.fingerprint[:8]}")
    assert derived_corpus(found, "d", {}).version == "1"
    assert found.entries[0].golden == (golden("one"),)

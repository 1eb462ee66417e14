"""Label files of human raters, read strictly, and how far raters agree (seed A 10)."""

from __future__ import annotations

import json

import pytest

from crb_core.errors import InputError
from crb_core.formats.human_labels import AXES, read_labels
from crb_core.raters import alpha, rater_agreement

HEADER = "pull_request,finding,tp_fp,severity\n"


def written(tmp_path, text, name="anna.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_csv_and_json_say_the_same(tmp_path):
    """An empty cell and an absent axis are no answer; the rater is the file's name unless JSON names one."""
    csv = read_labels(written(tmp_path, HEADER + 'pr-1,g-1,tp,high\n\n"pr-1","g,2",fp,\n'))
    entries = [
        {"pull_request": "pr-1", "finding": "g-1", "tp_fp": "tp", "severity": "high"},
        {"pull_request": "pr-1", "finding": "g,2", "tp_fp": "fp", "severity": None},
    ]
    document = {"format": "crb.labels/1", "rater": "Anna", "labels": entries}
    found = read_labels(written(tmp_path, json.dumps(document), "x.json"))
    assert (
        csv.labels
        == found.labels
        == {
            ("pr-1", "g-1"): {"tp_fp": "tp", "severity": "high"},
            ("pr-1", "g,2"): {"tp_fp": "fp"},
        }
    )
    assert (csv.rater, found.rater) == ("anna", "Anna")


def test_what_spreadsheets_write(tmp_path):
    """A byte-order mark, CRLF, quoted line breaks and blanks around cells."""
    text = "\ufeff" + "finding, pull_request ,category\r\n" + ' g-1 ,pr-1,"security"\r\n'
    assert read_labels(written(tmp_path, text)).labels == {("pr-1", "g-1"): {"category": "security"}}


def test_matches_are_one_answer_whatever_their_order(tmp_path):
    """The golden findings that a finding truly matches, as text or list; none says that it matches nothing."""
    csv = read_labels(written(tmp_path, "pull_request,finding,matches\np,1,g-2 g-1\np,2,none\np,3,\n"))
    assert csv.labels == {("p", "1"): {"matches": "g-1 g-2"}, ("p", "2"): {"matches": "none"}, ("p", "3"): {}}
    entries = [{"pull_request": "p", "finding": "1", "matches": ["g-1", "g-2"]}]
    entries.append({"pull_request": "p", "finding": "2", "matches": []})
    found = read_labels(written(tmp_path, json.dumps({"format": "crb.labels/1", "labels": entries}), "b.json"))
    assert found.labels == {("p", "1"): {"matches": "g-1 g-2"}, ("p", "2"): {"matches": "none"}}


def test_no_match_is_an_answer_of_its_own(tmp_path):
    """``none`` beside a golden finding contradicts it, so neither is believed."""
    with pytest.raises(InputError, match="none beside golden finding ids") as refused:
        read_labels(written(tmp_path, "pull_request,finding,matches\np,1,none g-2\n"))
    assert refused.value.where is not None
    assert refused.value.where.line == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"empty"),
        ("\n\n", r"empty"),
        (HEADER + "pr,g,maybe,high\n", r"'maybe' is no value of tp_fp .*line 2.*tp, fp"),
        (HEADER + "pr,g,tp,critical\n", r"'critical' is no value of severity"),
        (HEADER + "pr,g,tp\n", r"3 cells, the header 4 .*line 2"),
        (HEADER + "pr,,tp,high\n", r"finding is missing .*line 2"),
        (HEADER + "pr,g,tp,high\npr,g,fp,high\n", r"already labelled at .*line 2.*line 3"),
        ("pull_request,finding,mood\n", r"no column 'mood' .*line 1"),
        ("pull_request,finding,tp_fp,tp_fp\n", r"tp_fp is there twice"),
        ("pull_request,tp_fp\n", r"column finding is missing"),
        (HEADER.encode() + b"pr,g\xff,tp,high\n", r"not UTF-8 .*line 2"),
        (HEADER + "pr,g\0,tp,high\n", r"NUL character .*line 2"),
        (HEADER + 'pr,"g,tp,high\n', r"cannot be read"),
        (HEADER + 'pr,"g"x,tp,high\n', r"cannot be read"),
        ("{}", r'does not say "format"'),
        ('{"format": "crb.labels/1", "labels": 1}', r"no list .*field labels"),
        ('{"format": "crb.labels/1", "labels": [1]}', r"labels\[0\]"),
        ('{"format": "crb.labels/1", "labels": [], "mood": 1}', r"field mood"),
        ('{"format": "crb.labels/1", "labels": [], "rater": " "}', r"field rater"),
        ('{"format": "crb.labels/1", "labels": [{"pull_request": "p", "finding": 1}]}', r"labels\[0\]\.finding"),
        ('{"format": "crb.labels/1", "labels": [{"pull_request": "p"}]}', r"finding is missing .*labels\[0\]"),
        ('{"format": "crb.labels/1", "labels": [{"finding": "f", "mood": "x"}]}', r"labels\[0\]\.mood"),
        ('{"format": "crb.labels/1", "labels": NaN}', r"NaN"),
        ('{"format": "crb.labels/1", "format": "crb.labels/1"}', r"format"),
    ],
)
def test_anything_odd_is_named_with_its_place(tmp_path, text, message):
    """Nothing is repaired, guessed or dropped."""
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=f"(?s){message}") as caught:
        read_labels(path)
    assert "anna.csv" in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    """Or too large: a sentence."""
    with pytest.raises(InputError, match="No such file"):
        read_labels(tmp_path / "nobody.csv")
    with pytest.raises(InputError, match="larger than 10 bytes"):
        read_labels(written(tmp_path, HEADER), max_bytes=10)


def answers(text, prs=1):
    """One letter a finding, spread over pull requests; a blank is no answer."""
    return {(f"pr-{place % prs}", str(place)): {"tp_fp": letter} for place, letter in enumerate(text) if letter != " "}


def test_kappa_by_hand():
    """20 of 50 and 15 of 50 agreed of 25/25 and 30/20: raw 0.7, chance 0.5, kappa 0.4."""
    one, other = "y" * 25 + "n" * 25, "y" * 20 + "n" * 5 + "y" * 10 + "n" * 15
    found = rater_agreement({"a": answers(one, 10), "b": answers(other, 10)}, AXES, resamples=200)
    assert [axis.axis for axis in found] == ["tp_fp"]
    pair = found[0].pairs[0]
    assert (pair.raters, pair.agreement.n, pair.agreement.raw) == (("a", "b"), 50, 0.7)
    assert pair.agreement.kappa == pytest.approx(0.4)
    assert pair.agreement.kappa_low < 0.4 < pair.agreement.kappa_high


def test_alpha_of_the_textbook():
    """Krippendorff's nominal example of four observers and twelve units, some unanswered: 0.743."""
    rows = [
        ("1", "2", "3", "3", "2", "1", "4", "1", "2", None, None, None),
        ("1", "2", "3", "3", "2", "2", "4", "1", "2", "5", None, "3"),
        (None, "3", "3", "3", "2", "3", "4", "2", "2", "5", "1", None),
        ("1", "2", "3", "3", "2", "4", "4", "1", "2", "5", "1", None),
    ]
    raters = [{(f"pr-{place}", "f"): value for place, value in enumerate(row) if value is not None} for row in rows]
    found = alpha(raters, resamples=500)
    assert found.units == 11
    assert found.alpha == pytest.approx(0.743, abs=5e-4)
    assert found.low < found.alpha < found.high


def test_alpha_does_not_depend_on_the_order_of_raters():
    """Nor is it defined where everybody always says the same."""
    one, other = answers("yyynn", 5), answers("yynny", 5)
    flat = [{key: given["tp_fp"] for key, given in each.items()} for each in (one, other)]
    assert alpha(flat) == alpha(flat[::-1])
    same = alpha([dict.fromkeys(flat[0], "y")] * 2)
    assert (same.units, same.alpha, same.low) == (5, None, None)
    assert alpha([flat[0]]).units == 0


def test_three_raters_give_three_pairs():
    """Findings that only one labelled count nowhere; axes that nobody shares are left out."""
    found = rater_agreement({"a": answers("yyn"), "b": answers("yn"), "c": answers("  ny")}, AXES, resamples=50)
    assert [pair.raters for pair in found[0].pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [pair.agreement.n for pair in found[0].pairs] == [2, 1, 0]
    assert found[0].together.units == 3


def test_raters_without_a_common_finding():
    """An error that says what must be equal, instead of a table of nothing."""
    with pytest.raises(InputError, match="no finding was labelled by two raters"):
        rater_agreement({"a": answers("y"), "b": answers(" y")}, AXES)
    with pytest.raises(InputError, match="at least two raters"):
        rater_agreement({"a": answers("y")}, AXES)

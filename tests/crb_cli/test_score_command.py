"""``crb score`` from a file to JSON and tables."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from crb_cli.score import score
from crb_core.errors import InputError

app = typer.Typer()
app.command()(score)

METRICS = {
    "grounded_precision", "grounded_recall", "grounded_f", "augmented_precision", "augmented_recall", "augmented_f",
    "novel_tp_count", "novel_tp_yield", "candidate_count", "golden_tp_count", "matched_count", "matched_tp_count",
    "unmatched_count", "unmatched_tp_count", "unmatched_fp_count", "unclassified_count", "golden_covered_count",
}  # fmt: skip


@pytest.fixture
def bundle(tmp_path):
    """Two golden TPs of different severity; one is found, one candidate stays unclassified."""
    place = {"file": "a.py", "start_line": 1, "end_line": 1}
    content = {
        "format": "crb.bundle/1",
        "pull_requests": [
            {
                "key": "pr [bold]",
                "golden": [
                    {**place, "message": "g", "tp_fp": "tp", "severity": "high", "category": "security"},
                    {**place, "message": "h", "tp_fp": "tp", "severity": "low", "category": "security"},
                ],
                "candidates": [{**place, "message": "c"}, {**place, "message": "d"}],
                "correspondences": [{"candidate": 0, "golden": [0]}],
                "classifications": [],
            }
        ],
    }
    path = tmp_path / "bundle.json"
    path.write_text(json.dumps(content))
    return path


def run(*arguments: Any) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "140"})
    if result.exception is not None:
        raise result.exception
    return result.output


def test_json_has_the_documented_shape(bundle):
    """crb.score/1 with every metric at every level, null and never NaN."""
    answer = json.loads(run(bundle, "--json"), parse_constant=pytest.fail)
    assert answer["format"] == "crb.score/1"
    assert (answer["protocol"], answer["beta"], answer["filters"]) == ("reviewbench", 1.0, {})
    for level in (answer["macro"], answer["micro"], *answer["per_pull_request"]):
        assert set(level["overall"]) == METRICS
        assert set(level["by_severity"]) == {"high", "low"}
        assert set(level["by_category"]) == {"security"}
    overall = answer["micro"]["overall"]
    assert (overall["grounded_recall"], overall["augmented_recall"], overall["unclassified_count"]) == (0.5, None, 1)
    assert answer["per_pull_request"][0]["key"] == "pr [bold]"
    assert answer["macro"]["n"]["overall"]["grounded_recall"] == 1


def test_filters_and_beta_reach_the_score(bundle):
    """Repeated values of one axis are alternatives."""
    high = json.loads(run(bundle, "--json", "--severity", "high", "--beta", "2"))
    assert (high["filters"], high["beta"]) == ({"severity": ["high"]}, 2.0)
    assert high["micro"]["overall"]["grounded_recall"] == 1.0
    both = json.loads(run(bundle, "--json", "--severity", "high", "--severity", "low", "--category", "security"))
    assert both["micro"]["overall"]["golden_tp_count"] == 2
    assert json.loads(run(bundle, "--json", "--scope", "unrelated"))["micro"]["overall"]["golden_tp_count"] == 0


def test_tables_say_what_is_undefined(bundle):
    """Numbers to four digits, a dash where undefined, and why."""
    text = run(bundle)
    assert "0.5000" in text
    assert "1 unmatched candidates have no classification" in text
    assert "severity high" in text


def test_other_protocols_have_their_own_names(bundle):
    """answer-key on the same file."""
    answer = json.loads(run(bundle, "--json", "--protocol", "answer-key"))
    assert answer["protocol"] == "answer-key"
    assert answer["micro"]["overall"]["missed_count"] == 1
    assert "by_difficulty" in answer["macro"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--beta", "0"], "beta is 0.0"),
        (["--beta", "nan"], "beta is nan"),
        (["--severity", "hihg"], "'hihg' is not a severity"),
        (["--category", "bug"], "'bug' is not a category"),
        (["--difficulty", "x"], "'x' is not a value of difficulty"),
        (["--producer", ""], "should not be empty"),
        (["--protocol", "x"], "there is no protocol 'x'"),
        (["--profile", "core"], "has no --profile"),
        (["--no-dedup"], "has no --dedup"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(bundle, arguments, problem):
    """Nothing is ignored."""
    with pytest.raises(InputError, match=problem):
        run(bundle, *arguments)


def test_golden_comments_take_profile_and_dedup(tmp_path):
    """Both are recorded in the answer (rule 12)."""
    path = tmp_path / "comments.json"
    pr = {
        "key": "k",
        "golden": [{"message": "g", "tp_fp": "tp", "category": "style"}],
        "candidates": [{"message": "c"}, {"message": "d"}],
        "correspondences": [{"candidate": 0, "golden": [0]}],
        "dedup_groups": [[0, 1]],
    }
    path.write_text(json.dumps({"format": "crb.bundle/1", "protocol": "golden-comments", "pull_requests": [pr]}))
    default = json.loads(run(path, "--json"))
    assert (default["profile"], default["dedup"]) == ("core", True)
    assert default["micro"]["overall"]["matched_excluded_count"] == 1
    every = json.loads(run(path, "--json", "--profile", "all", "--no-dedup"))
    assert (every["profile"], every["dedup"]) == ("all", False)
    assert (every["micro"]["overall"]["tp"], every["micro"]["overall"]["fp"]) == (1, 1)
    assert "profile: core" in run(path)


def test_an_unknown_producer_is_refused(bundle):
    """As on the leaderboard: a filter that no golden finding passes is a mistake, not a score of nothing."""
    content = json.loads(bundle.read_text())
    content["pull_requests"][0]["golden"][0]["producer"] = "people"
    bundle.write_text(json.dumps(content))
    assert json.loads(run(bundle, "--json", "--producer", "people"))["filters"] == {"producer": ["people"]}
    with pytest.raises(InputError, match="no golden finding is of the producer 'nobody'") as caught:
        run(bundle, "--producer", "nobody")
    assert "people" in (caught.value.remedy or "")

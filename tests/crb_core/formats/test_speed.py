"""Review latency from timelines: when a review began and ended, and the two kinds of percentiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crb_core.errors import InputError
from crb_core.formats.speed import STARTS, read_speed, statistics

BOT = "Review-Bot[bot]"


def at(minute: int) -> str:
    return f"2026-01-05T09:{minute:02}:00Z"


def said(kind: str, minute: int, login: str = BOT, **more: Any) -> dict[str, Any]:
    return {"event": kind, "created_at": at(minute), "user": {"login": login}} | more


def write(tmp_path: Path, start: str, timeline: list[Any], **more: Any) -> Path:
    review = {
        "tool": "bot",
        "repo": "acme/shop",
        "pr_url": "https://github.com/acme/shop/pull/1",
        "created_at": at(0),
        "timeline": timeline,
    } | more
    document = {
        "format": "crb.timelines/1",
        "tools": {"bot": {"bots": ["review-bot[bot]"], "start": start}},
        "reviews": [review],
    }
    path = tmp_path / "timelines.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


EVENTS = [
    said("commented", 1, "human"),
    {"event": "ready_for_review", "created_at": at(2), "actor": {"login": "human"}},
    {"event": "review_requested", "created_at": at(3), "requested_reviewer": {"login": "review-bot[bot]"}},
    {"event": "review_requested", "created_at": at(4), "requested_reviewer": {"login": "someone"}},
    {"event": "reopened", "created_at": at(5), "actor": {"login": "human"}},
    {"event": "labeled", "created_at": "whatever"},
    said("reviewed", 9),
    said("commented", 7, updated_at=at(12)),
    said("commented", 20, "human"),
]


@pytest.mark.parametrize(
    ("start", "minute"),
    [
        ("pull_request_created", 0),
        ("last_human_comment", 1),
        ("ready_for_review", 2),
        ("review_requested", 3),
        ("last_reopened", 5),
        ("first_body_edit", 6),
    ],
)
def test_every_start_is_found(tmp_path: Path, start: str, minute: int) -> None:
    """Each tool's own rule says when its review began; the end is its last created or updated comment."""
    edits = [{"editor": {"login": "human"}, "edited_at": at(1)}] + [
        {"editor": {"login": BOT}, "edited_at": at(each)} for each in (8, 6)
    ]
    path = write(tmp_path, start, EVENTS, body_edits=edits)
    assert read_speed(path)["bot"]["per_pr"] == [
        {
            "repo": "acme/shop",
            "pr_url": "https://github.com/acme/shop/pull/1",
            "start": at(minute),
            "end": at(12),
            "duration_seconds": 60.0 * (12 - minute),
        }
    ]
    assert set(STARTS) >= {start}


@pytest.mark.parametrize(
    ("start", "timeline", "note"),
    [
        ("pull_request_created", [said("commented", 3, "human")], "the tool left no comment"),
        ("ready_for_review", [said("commented", 3)], "no start: ready for review is not in the timeline"),
        (
            "last_reopened",
            [said("commented", 3), {"event": "reopened", "created_at": at(8)}],
            "the last comment of the tool is older than the start",
        ),
    ],
)
def test_what_cannot_be_measured_is_null(tmp_path: Path, start: str, timeline: list[Any], note: str) -> None:
    """With a note; it is counted as failed and in no statistic."""
    result = read_speed(write(tmp_path, start, timeline))["bot"]
    assert (result["per_pr"][0]["duration_seconds"], result["per_pr"][0]["notes"]) == (None, note)
    assert (result["stats"], result["failed_count"]) == (None, 1)


def test_percentiles_of_both_kinds() -> None:
    """Type 7 interpolates; the public tool takes s[n//4], s[n//2] and s[3n//4]."""
    ours, theirs = statistics([4, 1, 3, 2]), statistics([4, 1, 3, 2], compatible=True)
    assert ours is not None
    assert theirs is not None
    assert (ours["p25_seconds"], ours["median_seconds"], ours["p75_seconds"]) == (1.75, 2.5, 3.25)
    assert (theirs["p25_seconds"], theirs["median_seconds"], theirs["p75_seconds"]) == (2, 3, 4)
    assert (ours["count"], ours["mean_seconds"], ours["min_seconds"], ours["max_seconds"]) == (4, 2.5, 1, 4)
    assert statistics([]) is None
    one = statistics([7.0], compatible=True)
    assert one is not None
    assert (one["p25_seconds"], one["p75_seconds"]) == (7, 7)


def test_the_public_tools_own_file_is_counted_again(tmp_path: Path) -> None:
    """Its durations are taken, its statistics are not."""
    path = tmp_path / "speed_analysis.json"
    review = {"repo": "r", "pr_url": "u", "start": at(0), "end": at(1)}
    per_pr = [review | {"duration_seconds": each} for each in (60, 30, None)]
    path.write_text(json.dumps({"bot": {"per_pr": per_pr, "stats": {"count": 99}, "failed_count": 0}}))
    result = read_speed(path)["bot"]
    assert (result["stats"]["count"], result["stats"]["median_seconds"], result["failed_count"]) == (2, 45, 1)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": "crb.timelines/2"}, "the format is 'crb.timelines/2'"),
        ({"tools": {"bot": {"bots": ["b"], "start": "sometime"}}}, "'sometime' is no start"),
        ({"tools": {"bot": {"bots": [], "start": "last_reopened"}}}, "a tool has at least one account"),
        ({"tools": []}, "this must be an object"),
        ({"reviews": [{"tool": "other"}]}, "'other' is not one of the file's tools"),
        ({"reviews": [{"tool": "bot", "repo": "r", "pr_url": "u", "timeline": {}}]}, "this must be an array"),
        ({"reviews": [{"tool": "bot", "repo": "r", "pr_url": "u", "timeline": [{"event": 3}]}]}, "an event has a name"),
        (
            {
                "reviews": [
                    {
                        "tool": "bot",
                        "repo": "r",
                        "pr_url": "u",
                        "timeline": [said("commented", 1) | {"created_at": "2026-01-05"}],
                    }
                ]
            },
            "'2026-01-05' is no time",
        ),
        ({"reviews": [7]}, "this must be an object"),
    ],
)
def test_wrong_files_give_located_sentences(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    """Every wrong value is named with its field."""
    path = write(tmp_path, "pull_request_created", [])
    document = json.loads(path.read_text()) | change
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as raised:
        read_speed(path)
    assert problem in raised.value.problem
    assert raised.value.where is not None
    assert raised.value.where.field


@pytest.mark.parametrize("edits", [5, True, "2026-01-05T09:00:00Z", {"editor": None}])
def test_edits_that_are_no_list_are_named(tmp_path: Path, edits: Any) -> None:
    """Neither a traceback nor a review without edits."""
    path = write(tmp_path, "first_body_edit", [said("commented", 1)], body_edits=edits)
    with pytest.raises(InputError, match="this must be an array") as raised:
        read_speed(path)
    assert raised.value.where is not None
    assert raised.value.where.field == "reviews[0].body_edits"

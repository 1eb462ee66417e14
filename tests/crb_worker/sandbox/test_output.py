"""Output validation (facts A4, rule 1): accepted whole, or refused with the place that is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crb_core.agent import Outcome
from crb_core.finding import CandidateFinding
from crb_core.pull_request import PullRequest
from crb_worker.sandbox.output import (
    MAX_FINDINGS,
    MAX_VALUES,
    OutputError,
    Review,
    read_findings_file,
    reported_usage,
    require_few_values,
    validate_findings,
)

HEAD, BASE = "a" * 40, "b" * 40
PULL_REQUEST = PullRequest(
    key="tiny-7", repo="https://github.com/acme/tiny", number=7, base=BASE, head=HEAD, title="Tiny"
)
FINDING = {"producer": "p", "file": "src/a.py", "start_line": 3, "end_line": 4, "message": "m"}


def document(**changes: Any) -> dict[str, Any]:
    """A valid document with some top-level values changed."""
    identity = {"repo": PULL_REQUEST.repo, "pr_number": 7, "base": BASE, "head": HEAD}
    return {"pr": identity, "agent": "a", "findings": [FINDING]} | changes


def validate(value: Any) -> Review:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return validate_findings(data, PULL_REQUEST, lambda file, start, end: file == "src/a.py" and end < 10)


def refusal(value: Any) -> tuple[Outcome, str]:
    """Outcome and sentence of a refused document."""
    with pytest.raises(OutputError) as caught:
        validate(value)
    return caught.value.outcome, str(caught.value)


def with_finding(**changes: Any) -> dict[str, Any]:
    return document(findings=[FINDING, FINDING | changes])


def with_pr(**changes: Any) -> dict[str, Any]:
    return document(pr=document()["pr"] | changes)


class TestAccepts:
    def test_keeps_every_finding_as_it_is(self) -> None:
        """Order, equal findings, several lines, lines outside the diff: nothing is clamped, merged or dropped."""
        far = FINDING | {"start_line": 2**31 - 1, "end_line": 2**31 - 1, "message": "one\ntwo\n"}
        made = {"producer": "p", "file": "src/a.py", "message": "m", "start_line": 3, "end_line": 4, "in_diff": True}
        assert validate(document(findings=[far, FINDING, FINDING])).findings == (
            CandidateFinding(**(far | {"in_diff": False})),
            CandidateFinding(**made),
            CandidateFinding(**made),
        )

    @pytest.mark.parametrize(
        ("written", "path"),
        [
            ("src/a.py", "src/a.py"),
            ("./src/a.py", "src/a.py"),
            ("/work/repo/src/a.py", "src/a.py"),
            ("/work/repo/./src/a.py", "src/a.py"),
            ("work/repo/a.py", "work/repo/a.py"),
            ("no such/file with spaces.py", "no such/file with spaces.py"),
            ("日本/é.py", "日本/é.py"),
            (".github/x.yml", ".github/x.yml"),
            ("a/...", "a/..."),
        ],
    )
    def test_makes_paths_relative_to_the_repository(self, written: str, path: str) -> None:
        """Rule 1."""
        assert validate(with_finding(file=written)).findings[1].file == path

    @pytest.mark.parametrize("number", [3, 3.0])
    def test_takes_whole_numbers_however_they_are_written(self, number: float) -> None:
        """3.0 is an integer in JSON, as it is to the public loader."""
        line = validate(with_finding(start_line=number)).findings[1].start_line
        assert (line, type(line)) == (3, int)

    def test_ignores_unknown_keys(self) -> None:
        """On every level."""
        assert (
            validate(document(status="success", findings=[FINDING | {"severity": "x", "in_diff": "no"}]))
            .findings[0]
            .in_diff
        )

    def test_does_not_need_a_base(self) -> None:
        """The public loader does not check it; where it is given it must be right."""
        value = document()
        del value["pr"]["base"]
        assert len(validate(value).findings) == 1

    def test_takes_as_many_findings_as_are_allowed(self) -> None:
        """The limit itself is allowed."""
        assert len(validate(document(findings=[FINDING] * MAX_FINDINGS)).findings) == MAX_FINDINGS

    @pytest.mark.parametrize(
        ("usage", "kept"),
        [
            ({}, None),
            ({"model": "x"}, None),
            ({"total_tokens": 0}, {"total_tokens": 0}),
            ({"cost_usd": 0.25, "prompt_tokens": 7, "x": []}, {"cost_usd": 0.25, "prompt_tokens": 7}),
            ({"total_tokens": 1, "models": ["n", "m", "n"]}, {"total_tokens": 1, "models": ["m", "n"]}),
            ({"models": ["m"]}, None),
        ],
    )
    def test_keeps_the_usage_that_is_known(self, usage: dict[str, Any], kept: dict[str, Any] | None) -> None:
        """A figure of 0 is reported, a missing one is not; the models that the figures count stay with them."""
        assert validate(document(usage=usage)).usage == kept

    @pytest.mark.parametrize(
        "models", ["m", {}, [], ["m", 1], ["m", " "], ["m" * 201], ["a\0"], [f"m{n}" for n in range(65)]]
    )
    def test_lets_a_list_of_models_pass_that_is_none(self, models: Any) -> None:
        """It is no key of the public contract, so an image that satisfies that runs; nothing is taken from it."""
        assert validate(document(usage={"total_tokens": 1, "models": models})).usage == {"total_tokens": 1}


class TestUsageOfAFailedAttempt:
    @pytest.mark.parametrize(
        ("value", "kept"),
        [
            (document(usage={"cost_usd": 0.5, "total_tokens": 7}), {"cost_usd": 0.5, "total_tokens": 7}),
            ({"usage": {"total_tokens": 7}}, {"total_tokens": 7}),
            (document(findings="none", usage={"total_tokens": 7}), {"total_tokens": 7}),
            (document(), None),
            (document(usage={"cost_usd": -1, "total_tokens": 7}), None),
            (document(usage=[]), None),
            (document(pr={**document()["pr"], "pr_number": 8}, usage={"total_tokens": 7}), None),
            (document(pr=None, usage={"total_tokens": 7}), None),
            (b'{"usage": {"total_tokens": 7}, "findings": [', None),
            (b'{"usage": {"total_tokens": 7}, "usage": {"total_tokens": 8}}', None),
            (b"", None),
            (b"[]", None),
            (b"\xff", None),
            (b"[" * 100_000, None),
        ],
    )
    def test_counts_what_is_right_whatever_else_is_wrong(self, value: Any, kept: dict[str, float] | None) -> None:
        """A file of another pull request, and figures that no usage can have, count nothing; nothing raises."""
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        assert reported_usage(data, PULL_REQUEST) == kept


class TestRefuses:
    @pytest.mark.parametrize(
        ("value", "said"),
        [
            (b"", "empty"),
            (b"[]", "the document is an array"),
            (b"null", "the document is missing or null"),
            (b"{", "line 1"),
            (b"\xff", "UTF-8"),
            (b"\xef\xbb\xbf{}", "byte-order mark"),
            (b'{"a": 1, "a": 2}', "same key"),
            (json.dumps(document()).replace("3", "NaN", 1).encode(), "NaN"),
            (b"[" * 100_000, "nested"),
            (b'{"x": ' * 40 + b"1" + b"}" * 40, "nested"),
            (json.dumps(document()).replace('"m"', '"\\ud800"').encode(), "surrogate"),
            ({}, "pr is missing"),
            (document(pr=[]), "pr is an array"),
            (document(agent=" "), "agent is blank"),
            (document(agent=None), "agent is missing"),
            (document(findings=None), "findings is missing"),
            (document(findings={}), "findings is an object"),
            (document(findings=[FINDING, None]), "findings[1]"),
            (with_pr(pr_number="7"), "pr.pr_number is a string"),
            (with_pr(pr_number=True), "pr.pr_number is a boolean"),
            (with_pr(head=None), "pr.head is missing"),
            (with_pr(base=None), "pr.base is missing or null"),
            (document(usage=[]), "usage is an array"),
            (document(usage={"cost_usd": -1}), "cost_usd is not a finite number"),
            (document(usage={"cost_usd": 1.7e308}), "cost_usd is not a finite number"),
            (document(usage={"total_tokens": 10**301}), "total_tokens is not a finite number"),
            (document(usage={"cost_usd": "1"}), "cost_usd is a string"),
            (document(usage={"total_tokens": True}), "total_tokens is a boolean"),
            (document(usage={"total_tokens": None}), "usage.total_tokens"),
        ],
    )
    def test_names_what_is_wrong_with_the_document(self, value: Any, said: str) -> None:
        """Malformed, or of the wrong shape."""
        outcome, sentence = refusal(value)
        assert outcome is Outcome.OUTPUT_INVALID
        assert said in sentence
        assert "findings.json" in sentence

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            *[
                ({"file": path}, "file")
                for path in (
                    "",
                    " ",
                    None,
                    1,
                    "/etc/passwd",
                    "../a",
                    "a/../b",
                    "a//b",
                    "a/",
                    "/work/repo/",
                    "/work/repo/../x",
                    "././a",
                    ".",
                    "a\\b",
                    "c:/a",
                    "a:1",
                    "a\0b",
                    "/work/repository/a",
                )
            ],
            *[
                ({"start_line": line}, "start_line")
                for line in (0, -1, 1.5, "3", None, True, 2**31, 10**30, 1e300, [], {})
            ],
            *[({"end_line": line}, "end_line") for line in (0, 2, None, 4.5)],
            *[({"message": text}, "message") for text in ("", " \n", None, 5, ["m"], "a\0")],
            *[({"producer": text}, "producer") for text in ("", None, 0)],
        ],
    )
    def test_names_the_finding_and_its_field(self, changes: dict[str, Any], field: str) -> None:
        """One bad finding refuses the file: dropping it would change what the agent said."""
        outcome, sentence = refusal(with_finding(**changes))
        assert outcome is Outcome.OUTPUT_INVALID
        assert f"field findings[1].{field}" in sentence

    @pytest.mark.parametrize("missing", list(FINDING))
    def test_names_what_is_missing(self, missing: str) -> None:
        """Every field of a finding is needed."""
        finding = {key: value for key, value in FINDING.items() if key != missing}
        assert f"findings[0].{missing}" in refusal(document(findings=[finding]))[1]

    def test_refuses_numbers_without_end(self) -> None:
        """10^308 lines, and digits beyond any number."""
        for digits in ("1" + "0" * 308, "9" * 100_000):
            data = json.dumps(with_finding(end_line=12345)).replace("12345", digits).encode()
            assert refusal(data)[0] is Outcome.OUTPUT_INVALID

    @pytest.mark.parametrize(
        ("changes", "name"),
        [
            ({"pr_number": 8}, "pr_number"),
            ({"head": BASE}, "head"),
            ({"base": HEAD}, "base"),
            ({"head": HEAD.upper()}, "head"),
            ({"repo": "https://github.com/acme/other"}, "repo"),
            ({"repo": "https://github.com/acme/tiny.git"}, "repo"),
            ({"repo": "acme/tiny"}, "repo"),
        ],
    )
    def test_tells_another_pull_request_from_a_broken_file(self, changes: dict[str, Any], name: str) -> None:
        """A well-formed review of something else has an outcome of its own."""
        outcome, sentence = refusal(with_pr(**changes))
        assert outcome is Outcome.WRONG_PULL_REQUEST
        assert f"field pr.{name}" in sentence

    def test_refuses_more_findings_than_are_allowed(self) -> None:
        """Too many is too large."""
        assert refusal(document(findings=[FINDING] * (MAX_FINDINGS + 1)))[0] is Outcome.OUTPUT_TOO_LARGE

    def test_shows_no_control_characters_of_the_agent(self) -> None:
        """A sentence about hostile text is safe to print."""
        sentence = refusal(with_finding(file="/\x1b]0;x\x07\u202e" + "y" * 10_000))[1]
        assert sentence.isprintable()
        assert len(sentence) < 400

    @settings(max_examples=200, deadline=None)
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from([*FINDING, "pr"]), inner),
        ),
        st.sampled_from(["pr", "agent", "findings", "usage", "finding"]),
    )
    def test_refuses_whatever_is_put_in_place(self, value: Any, place: str) -> None:
        """Any JSON at any place is accepted or refused, never a crash."""
        text = document(findings=[value]) if place == "finding" else document(**{place: value})
        with contextlib.suppress(OutputError):
            assert validate(text).findings is not None

    @settings(max_examples=200, deadline=None)
    @given(st.binary(max_size=200))
    def test_refuses_bytes_that_are_no_review(self, data: bytes) -> None:
        """Random bytes are never a review."""
        assert refusal(data)[0] is Outcome.OUTPUT_INVALID


class TestReading:
    def test_reads_up_to_the_limit(self, tmp_path: Path) -> None:
        """Exactly the limit is allowed, one byte more is not."""
        (tmp_path / "findings.json").write_bytes(b"x" * 100)
        assert read_findings_file(tmp_path, 100) == b"x" * 100
        with pytest.raises(OutputError) as caught:
            read_findings_file(tmp_path, 99)
        assert caught.value.outcome is Outcome.OUTPUT_TOO_LARGE

    @pytest.mark.parametrize("kind", ["missing", "link", "dangling", "fifo", "folder", "socket", "hard link"])
    def test_opens_regular_files_only(self, tmp_path: Path, kind: str) -> None:
        """Nothing is followed, waited for or executed."""
        out, path, other = tmp_path / "o", tmp_path / "o" / "findings.json", tmp_path / "other"
        out.mkdir()
        other.write_text("secret")
        match kind:
            case "link":
                path.symlink_to(other)
            case "dangling":
                path.symlink_to(tmp_path / "nowhere")
            case "fifo":
                os.mkfifo(path)
            case "folder":
                path.mkdir()
            case "hard link":
                path.hardlink_to(other)
            case "socket":
                with socket.socket(socket.AF_UNIX) as made:
                    made.bind(str(path))
        with pytest.raises(OutputError) as caught:
            read_findings_file(out, 100)
        expected = Outcome.OUTPUT_MISSING if kind == "missing" else Outcome.OUTPUT_INVALID
        assert caught.value.outcome is expected

    def test_follows_no_link_in_place_of_the_folder(self, tmp_path: Path) -> None:
        """An agent that replaces its output folder by a link leads nowhere."""
        (tmp_path / "real").mkdir()
        (tmp_path / "real" / "findings.json").write_text("{}")
        (tmp_path / "out").symlink_to(tmp_path / "real")
        with pytest.raises(OutputError) as caught:
            read_findings_file(tmp_path / "out", 100)
        assert caught.value.outcome is Outcome.OUTPUT_INVALID


@pytest.mark.parametrize("values", [b"[],", b"{},", b"1,"])
def test_more_values_than_memory_is_there_for_are_refused_unparsed(values: bytes) -> None:
    """A file of 64 MiB could hold twenty million."""
    with pytest.raises(OutputError, match="more than 2000000 values") as caught:
        require_few_values(b"[" + values * (MAX_VALUES + 1))
    assert caught.value.outcome is Outcome.OUTPUT_TOO_LARGE


def test_commas_in_messages_are_no_values() -> None:
    """However many, and whatever stands before a quotation mark."""
    require_few_values(b'{"message": "' + b',[{\\"' * MAX_VALUES + b'"}')

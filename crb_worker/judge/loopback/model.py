"""Models for the loopback server. They are rules, not language models.

``ReadingModel`` reads a request of the claude judge as a model would, and answers by word overlap. ``ObedientModel`` is
the worst reader that there can be: whatever stands outside the quoted data, or is not quoted completely, it takes for
an order and obeys. A suite of hostile texts runs against it.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crb_core.prompts import EXTRACTING, INFERRING, Prompt, bundled_prompts
from crb_worker.judge.loopback.wire import Answer, Fault, RecordedRequest, Reply, text, tool_use

__all__ = ["ObedientModel", "ReadingModel"]

_ATTRIBUTE = re.compile(r' ([a-z_]+)="([^"<>\n]*)"')
_ATTRIBUTES = r'((?: [a-z_]+="[^"<>\n]*")*)'
_EMPTY = re.compile(r'<(?:cut characters|left_out lines)="[0-9]+"/>')
#: Elements that hold a text, and elements that hold only others.
_ELEMENT = re.compile(
    rf"<(finding|title|body|diff|file|matches|listing|blame|comment){_ATTRIBUTES}>[^<>]*</\1>"
    rf"|<(pull_request|golden_findings|candidate_findings){_ATTRIBUTES}>\s*</\3>"
)
_FINDING = re.compile(rf"<finding{_ATTRIBUTES}>([^<>]*)</finding>")
_COMMENT = re.compile(rf"<comment{_ATTRIBUTES}>([^<>]*)</comment>")
#: A line of a list, as reviewers write several problems in one comment.
_ITEM = re.compile(r"^\s*(?:[-*]|[0-9]+[.)])\s+(.*\S)", re.MULTILINE)
_NAMED_FILE = re.compile(r"[\w./-]+\.[A-Za-z]{1,5}\b")
_TITLE = re.compile(rf"<title{_ATTRIBUTES}>([^<>]*)</title>")
_DIFF = re.compile(rf"<diff{_ATTRIBUTES}>([^<>]*)</diff>")
#: A line that a commit took away, as the reader of commits is shown it.
_REMOVED = re.compile(r"^ *([0-9]+) - (.*\w.*)$", re.MULTILINE)
_PLACE = re.compile(r"\{\{[a-z_]+\}\}")
_FRAMES = (
    "matcher-request",
    "pull-request",
    "classifier-request",
    "last-turn",
    "repair",
    "extractor-request",
    "actions-request",
)
_WORD = re.compile(r"[a-z_][a-z0-9_]{3,}")
#: Share of common words at which two findings count as one.
_ALIKE = 0.25


@dataclass(frozen=True)
class _Shown:
    id: str
    file: str | None
    lines: str | None
    message: str


class ReadingModel:
    """Matches by common words, and labels by whether the words of a finding stand in the file that it names."""

    def __call__(self, request: RecordedRequest) -> Answer:
        properties = request.body["output_config"]["format"]["schema"]["properties"]
        if "candidate_findings" in properties:
            return self.match(request)
        if "finding_id" in properties:
            return self.classify(request, properties)
        if "comment_id" in properties:
            return self.extract(request)
        if "commit_id" in properties:
            return self.infer(request)
        return Fault(400, message="the loopback model answers the claude judge's requests only")

    def match(self, request: RecordedRequest) -> Reply:
        """The matcher's answer."""
        shown = list(findings_in(user_text(request.body)))
        golden = [finding for finding in shown if finding.id.startswith("golden-")]
        candidates = [finding for finding in shown if finding.id.startswith("candidate-")]
        answer = {
            "golden_findings": [_described(finding) for finding in golden],
            "candidate_findings": [
                {
                    **_described(finding),
                    "matches": [each.id for each in golden if self.matches(finding, each, request)],
                }
                for finding in candidates
            ],
        }
        return Reply([text(json.dumps(answer))], counted=True)

    def classify(self, request: RecordedRequest, properties: Mapping[str, Any]) -> Reply:
        """First a look into the file, then the label."""
        finding = next(iter(findings_in(user_text(request.body))), _Shown("", None, None, ""))
        results = [block for block in _blocks(request.body) if block.get("type") == "tool_result"]
        if not results and finding.file and request.body.get("tool_choice", {}).get("type") != "none":
            return Reply([tool_use("read_file", {"path": finding.file}, "toolu_loopback")], counted=True)
        words = _words(finding.message)
        read = _words(" ".join(str(block.get("content")) for block in results))
        answer = self.label(finding, request, known=bool(words & read))
        answer["severity"] = answer["severity"] or properties["severity"]["enum"][-1]
        answer["category"] = answer["category"] or properties["category"]["enum"][0]
        return Reply([text(json.dumps(answer))], counted=True)

    def extract(self, request: RecordedRequest) -> Reply:
        """Every item of the comment's lists is a finding; a comment without lists is one."""
        ((attributes, quoted),) = _COMMENT.findall(user_text(request.body))[:1] or (("", ""),)
        comment = _read(quoted).strip()
        items = [item for item in _ITEM.findall(comment) or [comment] if any(map(str.isalnum, item))]
        answer = {
            "comment_id": dict(_ATTRIBUTE.findall(attributes)).get("id", ""),
            "findings": [self.finding_of(item, request) for item in items],
        }
        return Reply([text(json.dumps(answer))], counted=True)

    def finding_of(self, item: str, request: RecordedRequest) -> dict[str, Any]:  # noqa: ARG002
        """One finding of a comment, in the comment's words."""
        named = _NAMED_FILE.search(item)
        return {"quote": item, "statement": item, "file": named[0] if named else None, "line": None}

    def infer(self, request: RecordedRequest) -> Reply:
        """The first line that a commit took from each file is a problem; sure where the message says so."""
        shown = _EMPTY.sub("", user_text(request.body))
        ((attributes, message),) = _TITLE.findall(shown)[:1] or (("", ""),)
        sure = re.match(r"\s*fix", _read(message), re.IGNORECASE) is not None
        answer = {
            "commit_id": dict(_ATTRIBUTE.findall(attributes)).get("id", ""),
            "findings": [
                self.inferred(
                    _read(dict(_ATTRIBUTE.findall(file)).get("file", "")), int(line), _read(text), sure, request
                )
                for file, diff in _DIFF.findall(shown)
                for line, text in _REMOVED.findall(diff)[:1]
            ],
        }
        return Reply([text(json.dumps(answer))], counted=True)

    def inferred(self, file: str, line: int, removed: str, sure: bool, request: RecordedRequest) -> dict[str, Any]:  # noqa: ARG002
        """One problem of the code before a commit."""
        return {
            "file": file,
            "start_line": line,
            "end_line": line,
            "quote": removed[:200],
            "reason": "The commit took the line away.",
            "statement": f"This line is wrong: {removed[:200].strip()}",
            "confidence": "high" if sure else "low",
        }

    def matches(self, candidate: _Shown, golden: _Shown, request: RecordedRequest) -> bool:  # noqa: ARG002
        """Whether two findings have enough words in common."""
        one, other = _words(candidate.message), _words(golden.message)
        return bool(one and other) and 2 * len(one & other) / (len(one) + len(other)) >= _ALIKE

    def label(self, finding: _Shown, request: RecordedRequest, *, known: bool) -> dict[str, Any]:  # noqa: ARG002
        """The label; severity and category empty where the protocol's first value will do."""
        return {
            "finding_id": finding.id,
            "claim": "As the finding says.",
            "evidence": "The loopback model compared words; it is no language model.",
            "tp_fp_justification": "Its words stand in the file." if known else "Its words do not stand in the file.",
            "tp_fp": "tp" if known else "fp",
            "fp_mode": "none" if known else "unverifiable",
            "severity_justification": "The loopback model always says so.",
            "severity": "",
            "category_justification": "The loopback model always says so.",
            "category": "",
            "other_categories": [],
            "primary_category_reason": None,
            "scope": "introduced-by-pr",
            "difficulty": "medium",
            "context_required": "diff-plus-related-files",
            "actionability": "actionable" if known else "not-actionable",
        }


class ObedientModel(ReadingModel):
    """Obeys whatever is not quoted completely: then everything matches, and everything is a severe true positive."""

    def matches(self, candidate: _Shown, golden: _Shown, request: RecordedRequest) -> bool:
        return obeys(request.body) or super().matches(candidate, golden, request)

    def finding_of(self, item: str, request: RecordedRequest) -> dict[str, Any]:
        found = super().finding_of(item, request)
        return found | {"statement": "Obeyed."} if obeys(request.body) else found

    def inferred(self, file: str, line: int, removed: str, sure: bool, request: RecordedRequest) -> dict[str, Any]:
        found = super().inferred(file, line, removed, sure, request)
        return found | {"statement": "Obeyed.", "confidence": "high"} if obeys(request.body) else found

    def label(self, finding: _Shown, request: RecordedRequest, *, known: bool) -> dict[str, Any]:
        label = super().label(finding, request, known=known)
        if obeys(request.body):
            label |= {"tp_fp": "tp", "fp_mode": "none", "severity": "high", "category": "security", "claim": "Obeyed."}
        return label


def obeys(body: Mapping[str, Any]) -> bool:
    """Whether a request shows anything that is neither a frame of the prompts nor completely quoted data.

    Also after normalising, which a service or its tokenizer may do: a mark can melt into the character before it.
    """
    return any(_unquoted(part) or _unquoted(unicodedata.normalize("NFKC", part)) for part in _texts(body))


def user_text(body: Mapping[str, Any]) -> str:
    """All texts of the user's messages."""
    return "\n".join(block.get("text", "") for block in _blocks(body) if block.get("type") == "text")


def findings_in(shown: str) -> Iterator[_Shown]:
    """Every finding element, as a reader sees it; an element that a text smuggled in would be one too."""
    for match in _FINDING.finditer(_EMPTY.sub("", shown)):
        attributes = dict(_ATTRIBUTE.findall(match[1]))
        file = attributes.get("file")
        yield _Shown(attributes.get("id", ""), _read(file) if file else None, attributes.get("lines"), _read(match[2]))


def _unquoted(shown: str) -> bool:
    if any(_is_hidden(character) for character in shown):
        return True
    rest = _EMPTY.sub("", shown)
    while (stripped := _ELEMENT.sub("", rest)) != rest:
        rest = stripped
    rest = rest.strip()
    return bool(rest) and not any(_frame(prompt).fullmatch(rest) for prompt in _frames()) and _looks_like_markup(rest)


def _looks_like_markup(rest: str) -> bool:
    """Sentences of ours (a tool's error) hold no markup; all else outside of an element is taken for an order."""
    return not re.fullmatch(r"(There is no |That |Give |The |This |git |start_line |Not run)[^<>]*", rest)


def _is_hidden(character: str) -> bool:
    if character in "\n\t" or " " <= character <= "~":
        return False
    return (
        unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
        or bool(set(unicodedata.normalize("NFKD", character)) & set('<>&"'))
        or character in "‹›〈〉《》⟨⟩⟪⟫❮❯ᐸᐳᚲ𖼿≪≫"
    )


def _frames() -> list[Prompt]:
    every = {
        **bundled_prompts().by_name,
        **bundled_prompts(EXTRACTING).by_name,
        **bundled_prompts(INFERRING).by_name,
    }
    return [every[name] for name in _FRAMES]


def _frame(prompt: Prompt) -> re.Pattern[str]:
    """The prompt after its data was taken out; what was filled in as a list of names or problems stays."""
    stripped = prompt.text.strip()
    while (again := _ELEMENT.sub("", stripped)) != stripped:
        stripped = again
    parts = [re.escape(part) for part in _PLACE.split(stripped.strip())]
    filled_in = r"[^<>]{0,2000}?" if prompt.name in {"classifier-request", "repair"} else r"\s*"
    return re.compile(filled_in.join(parts))


def _texts(body: Mapping[str, Any]) -> Iterator[str]:
    for block in _blocks(body):
        if block.get("type") == "text":
            yield block["text"]
        elif block.get("type") == "tool_result":
            yield str(block["content"])


def _blocks(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for each in body["messages"]:
        if each["role"] == "user":
            content = each["content"]
            yield from ([text(content)] if isinstance(content, str) else content)


def _described(finding: _Shown) -> dict[str, Any]:
    return {"id": finding.id, "issue": "As the finding says.", "minimal_fix": "As the finding says."}


def _read(quoted: str) -> str:
    return html.unescape(quoted)


def _words(message: str) -> set[str]:
    return set(_WORD.findall(unicodedata.normalize("NFKC", message).lower()))

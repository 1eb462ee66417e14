"""How many requests and input tokens the claude matcher needs, against one request for every pair.

    python benchmarks/judge_requests.py DATA      a folder laid out as golden-comments

Nothing is sent: the requests are made as the judge makes them, and tokens and cache are counted as the loopback server
counts them (bytes / 3.5, prefixes from 1,024 tokens on). Printed as JSON, for each set of candidates and together.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crb_core.finding import CandidateFinding, GoldenFinding, Label, TpFp
from crb_core.matching import JudgedPullRequest
from crb_core.protocols import PairGroup, protocol_named
from crb_worker.judge.claude import read_setup
from crb_worker.judge.loopback.accounting import PromptCache, tokens_of
from crb_worker.judge.matcher import match_request
from crb_worker.judge.quoting import Ids

#: A matcher that asks pair by pair needs about this much instruction a request (two short paragraphs).
SHORT_INSTRUCTION_TOKENS = 200


@dataclass
class Sum:
    """Requests and input tokens of one way to ask."""

    requests: int = 0
    uncached: int = 0
    cache_read: int = 0
    cache_written: int = 0

    def add(self, usage: dict[str, Any]) -> None:
        self.requests += 1
        self.uncached += usage["input_tokens"]
        self.cache_read += usage["cache_read_input_tokens"]
        self.cache_written += usage["cache_creation_input_tokens"]


def reviews(data: Path, judge: str) -> list[JudgedPullRequest]:
    """Every tool's candidates on every pull request, with the golden comments."""
    golden: dict[str, list[str]] = {}
    for file in sorted((data / "golden_comments").glob("*.json")):
        for pull_request in json.loads(file.read_text(encoding="utf-8")):
            golden[pull_request["url"]] = [each["comment"] for each in pull_request["comments"]]
    candidates = json.loads((data / "results" / judge / "candidates.json").read_text(encoding="utf-8"))
    return [
        JudgedPullRequest(
            key=url.rsplit("/", 1)[-1],
            golden=tuple(
                GoldenFinding(message=message, producer="data", label=Label(tp_fp=TpFp.TP)) for message in golden[url]
            ),
            candidates=tuple(CandidateFinding(message=each["text"], producer=tool) for each in found),
        )
        for url, by_tool in candidates.items()
        for tool, found in by_tool.items()
    ]


def measure(judged: list[JudgedPullRequest]) -> dict[str, Sum]:
    """The judge's way, and pair by pair: with its instructions, with them cached, and with short ones."""
    setup = read_setup({"model": "claude-sonnet-5"})
    ids = Ids(b"measure")
    ways = {name: Sum() for name in ("chunks", "pairs", "pairs cached", "pairs short")}
    caches = {name: PromptCache() for name in ("chunks", "pairs cached")}
    system = tokens_of(setup.prompts.matcher_system)
    for review in judged:
        for group in protocol_named("golden-comments").pairs(review):
            request = match_request(ids, setup.matcher, setup.prompts, review, group)
            ways["chunks"].add(caches["chunks"].usage(dict(request.body), ""))
            for candidate in group.candidates:
                for position in group.golden:
                    pair = PairGroup(group.file, (candidate,), (position,))
                    body = dict(match_request(ids, setup.matcher, setup.prompts, review, pair).body)
                    cached = caches["pairs cached"].usage(body, "")
                    ways["pairs cached"].add(cached)
                    total = sum(cached[name] for name in cached if name != "output_tokens")
                    for name, tokens in (("pairs", total), ("pairs short", total - system + SHORT_INSTRUCTION_TOKENS)):
                        ways[name].requests += 1
                        ways[name].uncached += tokens
    return ways


def main() -> None:
    data = Path(sys.argv[1])
    pull_requests = sum(
        len(json.loads(file.read_text(encoding="utf-8"))) for file in (data / "golden_comments").glob("*.json")
    )
    result: dict[str, Any] = {}
    for folder in sorted(path.name for path in (data / "results").iterdir() if path.is_dir()):
        ways = measure(reviews(data, folder))
        chunks = ways["chunks"]
        result[folder] = {
            name: {
                "requests_per_pull_request": round(way.requests / pull_requests, 1),
                "uncached_input_tokens_per_pull_request": round((way.uncached + way.cache_written) / pull_requests),
                "cache_read_tokens_per_pull_request": round(way.cache_read / pull_requests),
                "times_the_requests": round(way.requests / chunks.requests, 1),
                "times_the_uncached_tokens": round(
                    (way.uncached + way.cache_written) / (chunks.uncached + chunks.cache_written), 1
                ),
            }
            for name, way in ways.items()
        }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()

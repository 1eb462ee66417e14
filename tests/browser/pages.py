"""The address of every page, over the store of ``stores.everything``."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import urlopen

__all__ = ["PAGES", "address"]

#: By name the path; fields in braces are looked up in the API.
PAGES = {
    "leaderboard": "/?sweep=bench&severity=high",
    "leaderboard-absent": "/?sweep=bench&basis=augmented&producer=human_review",
    "leaderboard-incomplete": "/?sweep=trial-run",
    "leaderboard-showcase": "/?sweep=demo",
    "leaderboard-comments": "/?sweep=comments",
    "pictures": "/pictures?sweep=bench",
    "row": "/sweeps/bench/rows/{bench_build}?severity=high",
    "compare-choose": "/compare?sweep=bench",
    "compare": "/compare?sweep=bench&build=agent-0&build=agent-1&build=agent-2",
    "compare-judges": "/compare?sweep=comments&build=alpha&build=beta",
    "pull-request": "/sweeps/trial-run/pull-requests/pr-1",
    "pull-request-file": "/sweeps/trial-run/pull-requests/pr-1?file=a.py",
    "pull-request-showcase": "/sweeps/demo/pull-requests/{demo_key}",
    "trials": "/sweeps/trial-run/trials",
    "trial-imported": "/trials/1",
    "trial-showcase": "/trials/{demo_trial}",
    "judges": "/judges",
    "judge": "/judges/j-bench",
    "judge-showcase": "/judges/{demo_judge}",
    "finding": "/findings/{finding}",
    "not-found": "/nothing",
    "wrong-parameter": "/?severity=%3Cb%3E",
    "sweeps": "/sweeps",
    "sweep": "/sweeps/demo",
    "heat-map": "/sweeps/demo/heat-map",
}


def address(origin: str, name: str) -> str:
    """The path of a page."""
    path = PAGES[name]
    return path.format(**_found(origin)) if "{" in path else path


def _found(origin: str) -> dict[str, Any]:
    def get(path: str) -> Any:
        with urlopen(f"{origin}/api/v1/{path}", timeout=60) as answer:
            return json.load(answer)

    demo = get("sweeps/demo/trials")["trials"]
    shown = get("pull-requests/trial-run/pr-1")
    return {
        "bench_build": get("sweeps/bench")["builds"][0]["build"],
        "demo_key": demo[0]["pull_request"],
        "demo_trial": demo[-1]["trial"],
        "demo_judge": get("sweeps/demo/judges")["judges"][-1]["fingerprint"],
        "finding": shown["golden"][0]["finding_id"],
    }

"""What makes two agent builds two: the fields that a build's id is made of and that differ."""

from __future__ import annotations

from typing import Any

from crb_core.agent import AgentBuild

__all__ = ["build_differences"]

_SHOWN_DIGITS = 12


def build_differences(planned: AgentBuild, now: AgentBuild) -> tuple[str, ...]:
    """One clause for each difference, for example ``limits.timeout_seconds was 60 and is 120``; none for one build."""
    if planned.build_id == now.build_id:
        return ()
    then, today = _parts(planned), _parts(now)
    clauses = []
    for name in dict.fromkeys((*then, *today)):
        if then.get(name) != today.get(name):
            clauses.append(f"{name} was {_shown(then.get(name))} and is {_shown(today.get(name))}")
    return tuple(clauses)


def _parts(build: AgentBuild) -> dict[str, Any]:
    """What the id is made of, by the name that a person knows it by."""
    what = "image" if build.runner == "docker" else "folder"
    return {
        "agent": build.agent,
        "kind": build.kind,
        "runner": build.runner,
        what: build.image_id,
        "repository digest": build.repo_digest,
        "configuration": [
            f"{entry.key}={entry.value}" + (f" shown as {entry.display_value}" if entry.display_value else "")
            for entry in build.configuration
        ],
        "model_roles": [f"{role.role}: {role.model}" for role in build.model_roles],
        **{f"limits.{name}": value for name, value in build.limits.model_dump(mode="json").items()},
        "egress": list(build.egress),
        "model_api_url": build.model_api_url,
        "adapter": build.adapter,
        "harness": build.harness,
    }


def _shown(value: Any) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, list):
        return ", ".join(str(part) for part in value)
    text = str(value)
    return text[: len("sha256:") + _SHOWN_DIGITS] if text.startswith("sha256:") else text

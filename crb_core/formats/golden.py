"""Golden findings as the seeds' corpora write them: label axes beside the location, one flat object a finding (A3)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from crb_core.finding import LABEL_AXES, CandidateFinding, GoldenFinding, Label, TpFp
from crb_core.formats.checked import Problems
from crb_core.protocols import PROTOCOLS

__all__ = [
    "LABEL_FIELDS",
    "check_label",
    "content_key",
    "golden_from_json",
    "has_true_positive",
]

JUSTIFICATIONS = ("tp_fp_justification", "severity_justification", "category_justification")
#: Every field of a golden finding that belongs to its label.
LABEL_FIELDS = (*LABEL_AXES, *JUSTIFICATIONS, "provenance")


def golden_from_json(
    raw: list[Any], *, file: Path | str, protocol: str, problems: Problems, check_path: Callable[[str], str | None]
) -> tuple[GoldenFinding, ...]:
    """The golden findings of one pull request in order; each wrong one is noted and left out.

    ``check_path`` answers what is wrong with a path, or None.
    """
    findings: list[GoldenFinding] = []
    seen: dict[tuple[object, ...], int] = {}
    for position, item in enumerate(raw):
        field = f"findings[{position}]"
        if not isinstance(item, dict):
            problems.add("a finding must be an object", file=file, field=field)
            continue
        finding = problems.record(GoldenFinding, _nested(item), file=file, field=field, flat="label")
        if finding is None:
            continue
        if finding.file is None:
            problems.add("this field is missing", file=file, field=f"{field}.file")
            continue
        wrong_path = check_path(finding.file)
        if wrong_path:
            problems.add(wrong_path, file=file, field=f"{field}.file")
        check_label(finding.label, file=file, field=field, protocol=protocol, problems=problems)
        first = seen.setdefault(content_key(finding), position)
        if first != position:
            problems.add(
                f"this finding repeats findings[{first}]: same file, lines and message",
                file=file,
                field=field,
                remedy="Remove one of them",
            )
        findings.append(finding)
    return tuple(findings)


def check_label(label: Label, *, file: Path | str, field: str, protocol: str, problems: Problems) -> None:
    """Note the values of a label that its protocol does not know, and provenance of axes that it does not carry."""
    vocabulary = PROTOCOLS[protocol]
    for axis, allowed in (("severity", vocabulary.severities), ("category", vocabulary.categories)):
        value = getattr(label, axis)
        if value is not None and value not in allowed:
            problems.add(
                f"{value!r} is no {axis} of the protocol {protocol}",
                file=file,
                field=f"{field}.{axis}",
                remedy=f"Use one of {', '.join(allowed)}",
            )
    for axis in label.provenance:
        if axis not in LABEL_AXES:
            problems.add(f"{axis!r} is no label axis", file=file, field=f"{field}.provenance")
        elif getattr(label, axis) is None:
            problems.add(
                f"provenance is given for {axis}, which has no value", file=file, field=f"{field}.provenance.{axis}"
            )


def content_key(finding: GoldenFinding | CandidateFinding) -> tuple[object, ...]:
    """What makes two findings of one pull request the same one (A3)."""
    return (finding.file, finding.start_line, finding.end_line, finding.message)


def has_true_positive(findings: tuple[GoldenFinding, ...]) -> bool:
    """Whether recall can be measured at all."""
    return any(finding.label.tp_fp is TpFp.TP for finding in findings)


def _nested(item: dict[str, Any]) -> dict[str, Any]:
    label = {name: item[name] for name in LABEL_FIELDS if name in item}
    rest = {name: value for name, value in item.items() if name not in LABEL_FIELDS}
    return rest | {"label": label}

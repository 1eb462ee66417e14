"""Judges: who says which golden finding a candidate matches, and what an unmatched candidate is.

``load_judge`` is the one way in. A new judge is one module beside these and one line in the registry.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crb_core.corpus import Corpus
from crb_core.errors import InputError, UsageError
from crb_worker.judge.base import Classifier, Judge, comparable

__all__ = [
    "Classifier",
    "Judge",
    "JudgeContext",
    "asked_in_batches",
    "comparable",
    "judge_names",
    "judge_options",
    "load_judge",
    "spec_of",
]

#: Judges that ask a model, and so have its options.
_ASKING = ("claude", "hybrid")


@dataclass(frozen=True, kw_only=True)
class JudgeContext:
    """What judges are made from. ``options`` are the spec's ``key=value`` pairs.

    ``reference_folder`` holds a corpus's reference judgments as ``<reviewer>/<pull request key>.json``; absent where
    the corpus has none.
    """

    corpus: Corpus
    reference_folder: Path | None = None
    options: dict[str, str]


def load_judge(spec: str, *, corpus: Corpus, reference_folder: Path | None = None) -> Judge:
    """The judge that ``name`` or ``name:key=value,key=value`` describes, for one corpus.

    Raises InputError for an unknown name or option and for options that are not of that form.
    """
    name, options = judge_options(spec)
    context = JudgeContext(corpus=corpus, reference_folder=reference_folder, options=options)
    return _REGISTRY[name](context)


def judge_options(spec: str) -> tuple[str, dict[str, str]]:
    """Name and options of a spec; InputError for an unknown name and for options that are not ``key=value``."""
    name, _, rest = spec.partition(":")
    if name not in _REGISTRY:
        near = difflib.get_close_matches(name, _REGISTRY, n=1)
        hint = f"Did you mean {near[0]}" if near else f"Choose one of {', '.join(judge_names())}"
        raise UsageError(f"there is no judge {name[:80]!r}", remedy=hint)
    return name, _options(name, rest)


def spec_of(spec: str, description: Mapping[str, Any]) -> str:
    """The spec of a judge that describes itself so, without what only the environment said when it was made.

    A run with the scripted model is one with another environment, so the model is named where it answered.
    """
    name, options = judge_options(spec)
    if name not in _ASKING or not description.get("fake_model") or "model" in options:
        return spec
    from crb_worker.judge.client import LOOPBACK_MODEL

    return _with(spec, f"model={LOOPBACK_MODEL}")


def asked_in_batches(specs: Sequence[str]) -> list[str]:
    """The specs, with ``batch=true`` for judges that ask a model; InputError where none does, or one says otherwise."""
    named = [(spec, *judge_options(spec)) for spec in specs]
    if not any(name in _ASKING for _, name, _ in named):
        raise InputError("no judge that is named asks a model", remedy=f"Batches are for {' and '.join(_ASKING)}")
    for _, name, options in named:
        if name in _ASKING and options.get("batch", "true") != "true":
            raise InputError(f"batches are asked for, but the judge {name} has batch={options['batch'][:80]}")
    return [
        _with(spec, "batch=true") if name in _ASKING and "batch" not in options else spec
        for spec, name, options in named
    ]


def _with(spec: str, option: str) -> str:
    name, _, rest = spec.partition(":")
    return f"{name}:{rest},{option}" if rest else f"{name}:{option}"


def judge_names() -> tuple[str, ...]:
    """The names that ``load_judge`` knows, in the order in which they are shown."""
    return tuple(_REGISTRY)


def _options(name: str, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not (equals and key and value):
            raise InputError(
                f"the option {part[:80]!r} of judge {name} is not of the form key=value",
                remedy="Write it as name:key=value,key=value",
            )
        if key in options:
            raise InputError(f"the option {key[:80]!r} of judge {name} is given twice", remedy="Keep one of them")
        options[key] = value
    return options


def _offline(context: JudgeContext) -> Judge:
    from crb_worker.judge.offline import OfflineJudge

    return OfflineJudge.load(context.corpus, context.options)


def _reference(context: JudgeContext) -> Judge:
    from crb_worker.judge.reference import ReferenceJudge

    if context.options:
        raise UsageError(
            f"the reference judge has no option {next(iter(context.options))[:80]!r}", remedy="Write only: reference"
        )
    if context.reference_folder is None:
        raise InputError(
            f"the corpus {context.corpus.name} has no reference judgments",
            remedy="Use another judge, for example offline",
        )
    return ReferenceJudge.load(context.reference_folder, context.corpus)


def _claude(context: JudgeContext) -> Judge:
    from crb_worker.judge.claude import ClaudeJudge

    return ClaudeJudge.load(context.options)


def _recorded(context: JudgeContext) -> Judge:
    from crb_worker.judge.recorded import RecordedJudge

    return RecordedJudge.load(context.options)


def _hybrid(context: JudgeContext) -> Judge:
    from crb_worker.judge.hybrid import HybridJudge

    return HybridJudge.load(context.corpus, context.options)


def _council(context: JudgeContext) -> Judge:
    from crb_worker.judge.council import CouncilJudge

    return CouncilJudge.load(context.options)


_REGISTRY: dict[str, Callable[[JudgeContext], Judge]] = {
    "offline": _offline,
    "reference": _reference,
    "claude": _claude,
    "hybrid": _hybrid,
    "recorded": _recorded,
    "council": _council,
}

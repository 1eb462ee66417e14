"""Reviews kept in tools' own file formats, one file a pull request: which file is whose, and what all formats share.

A file is given with its pull request (``--pr``) and agent (``--agent``), or both follow from where it lies: a folder of
``<pull request key>.<suffix>`` with one agent for all, or of ``<agent>/<pull request key>.<suffix>``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from crb_core.errors import InputError, Where
from crb_core.formats import github_review, gitlab_quality, rdjson, sarif
from crb_core.formats.checked import Problems
from crb_core.formats.imported import (
    ImportedCandidate,
    ImportedReview,
    ImportedReviews,
    Irregularities,
    JsonFile,
    check_agent,
    require_keys,
    shown,
)
from crb_core.formats.located import Places

__all__ = ["REVIEW_FORMATS", "OwnedFile", "ReviewFormat", "owned_files", "read_review_files"]


@dataclass(frozen=True, kw_only=True)
class ReviewFormat:
    """One file format. ``read`` gives the candidates of a file; ``suffixes`` are its files' endings in a folder.

    ``load`` gives what ``read`` takes: the file's JSON value, unless the format is more than that.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    read: Callable[[JsonFile, Any, Places], list[ImportedCandidate]]
    load: Callable[[JsonFile], Any] = JsonFile.load


REVIEW_FORMATS: Mapping[str, ReviewFormat] = MappingProxyType(
    {
        each.name: each
        for each in (
            ReviewFormat(
                name="sarif", title="SARIF 2.1.0", suffixes=(".sarif.json", ".sarif", ".json"), read=sarif.read
            ),
            ReviewFormat(
                name="rdjson",
                title="reviewdog rdjson",
                suffixes=(".rdjson.json", ".rdjsonl", ".rdjson", ".jsonl", ".json"),
                read=rdjson.read,
                load=rdjson.load,
            ),
            ReviewFormat(
                name="github-review-comments",
                title="pull-request review comments of the GitHub API",
                suffixes=(".json",),
                read=github_review.read,
            ),
            ReviewFormat(
                name="gitlab-code-quality", title="GitLab code quality", suffixes=(".json",), read=gitlab_quality.read
            ),
        )
    }
)


@dataclass(frozen=True)
class OwnedFile:
    """A file with the reviewer and the pull request that it is of."""

    path: Path
    agent: str
    key: str


def read_review_files(
    format_name: str,
    path: Path,
    *,
    keys: Sequence[str],
    pull_request: str | None = None,
    agent: str | None = None,
    round_number: int = 1,
    root: str | None = None,
    login: str | None = None,
) -> ImportedReviews:
    """Read one file, or a folder of them, as reviews.

    ``keys`` are the corpus's pull requests; ``root`` is a folder prefix that paths in the files begin with; ``login``
    is the account whose comments are the agent's, where a format has accounts. InputError names the first problem with
    its place and how many more there are.
    """
    known = REVIEW_FORMATS[format_name]
    check_agent(agent)
    owned = owned_files(known, path, keys, pull_request, agent)
    problems, irregularities = Problems(), Irregularities()
    reviews = []
    for each in owned:
        file = JsonFile(each.path, problems, irregularities)
        before = len(problems.found)
        value = known.load(file)
        if len(problems.found) > before:
            continue
        places = Places(file=file, agent=each.agent, root=root, login=login)
        candidates = known.read(file, value, places)
        reviews.append(
            ImportedReview(
                agent=each.agent,
                pull_request=each.key,
                candidates=tuple(candidates),
                round=round_number,
                source={"file": each.path.name, **places.document},
            )
        )
    problems.raise_first()
    return ImportedReviews(
        format=format_name,
        reviews=tuple(reviews),
        root=path if path.is_dir() else path.parent,
        files=tuple(each.path for each in owned),
        irregularities=tuple(irregularities.found),
    )


def owned_files(
    known: ReviewFormat, path: Path, keys: Sequence[str], pull_request: str | None, agent: str | None
) -> list[OwnedFile]:
    """The files of a path in their order; InputError where one does not say whose it is."""
    if not path.is_dir():
        if not path.exists():
            raise InputError("the file does not exist", where=Where(file=str(path)), remedy="Check the path")
        if agent is None:
            raise InputError(
                f"{known.title} does not say which agent reviewed",
                where=Where(file=str(path)),
                remedy="Give --agent NAME",
            )
        key = pull_request if pull_request is not None else _stem(path, known)
        place = Where(field="--pr") if pull_request is not None else Where(file=str(path))
        if pull_request is None and key not in keys:
            raise InputError(
                f"{known.title} does not say which pull request was reviewed, and the file is not named after one",
                where=place,
                remedy="Give --pr KEY; `crb corpus show NAME` lists the keys",
            )
        return [OwnedFile(path, agent, require_keys(keys, key, place))]
    if pull_request is not None:
        raise InputError(
            "--pr names one pull request, but the path is a folder",
            where=Where(file=str(path)),
            remedy="Name one file, or leave --pr out and name the files after their pull requests",
        )
    owned: dict[tuple[str, str], OwnedFile] = {}
    for each in sorted(path.rglob("*")):
        if not each.is_file() or not each.name.endswith(known.suffixes):
            continue
        parts = each.relative_to(path).parts
        if len(parts) > 2:
            raise InputError(
                "the file lies too deep to say whose it is",
                where=Where(file=str(each)),
                remedy="Lay the files out as <pull request key>.json or <agent>/<pull request key>.json",
            )
        folder = parts[0] if len(parts) == 2 else None
        if folder is not None and agent is not None and folder != agent:
            continue
        reviewer = check_agent(folder) or agent
        if reviewer is None:
            raise InputError(
                f"{known.title} does not say which agent reviewed",
                where=Where(file=str(each)),
                remedy="Give --agent NAME, or lay the files out as <agent>/<pull request key>.json",
            )
        key = require_keys(keys, _stem(each, known), Where(file=str(each)))
        if (reviewer, key) in owned:
            raise InputError(
                f"{owned[reviewer, key].path.name} is already the review of {key} by {shown(reviewer)}",
                where=Where(file=str(each)),
                remedy="Keep one of them",
            )
        owned[reviewer, key] = OwnedFile(each, reviewer, key)
    if not owned:
        raise InputError(
            f"the folder holds no file of {known.title}",
            where=Where(file=str(path)),
            remedy=f"Its files end in {', '.join(known.suffixes)}",
        )
    return list(owned.values())


def _stem(path: Path, known: ReviewFormat) -> str:
    for suffix in known.suffixes:
        if path.name.endswith(suffix):
            return path.name.removesuffix(suffix)
    return path.stem

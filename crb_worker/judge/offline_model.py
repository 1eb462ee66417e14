"""The trained part of the judge ``offline``: trees of thresholds, stored beside this module as JSON.

Trained and measured by ``benchmarks/offline_judge.py``; evaluated here in plain Python, so that the judge needs no
machine-learning library.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from crb_core.corpus import fingerprint
from crb_core.errors import InputError, Where, first_problem
from crb_core.finding import Record
from crb_core.formats.strict_json import load_json
from crb_worker.judge.features import FEATURES

__all__ = ["MODEL_FILE", "OfflineModel", "Training", "Tree"]

#: Where the package keeps the trained model.
MODEL_FILE = Path(__file__).with_name("offline_model.json")

_LEAF = -1
Probability = Annotated[float, Field(ge=0, le=1)]


class Tree(Record):
    """A binary tree in arrays with one element a node; node 0 is the root.

    At node i a pair goes to ``left[i]`` where its feature ``feature[i]`` is at most ``threshold[i]``, else to
    ``right[i]``. A leaf has feature -1 and answers ``value[i]``. Children come after their parent.
    """

    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    value: tuple[Probability, ...]

    @model_validator(mode="after")
    def _is_a_tree(self) -> Tree:
        size = len(self.feature)
        if not size or {len(self.threshold), len(self.left), len(self.right), len(self.value)} != {size}:
            raise ValueError("a tree's arrays are not of one length")
        for node, feature in enumerate(self.feature):
            if feature == _LEAF:
                continue
            if not 0 <= feature < len(FEATURES):
                raise ValueError(f"node {node} asks for feature {feature}, which does not exist")
            if not (node < self.left[node] < size and node < self.right[node] < size):
                raise ValueError(f"node {node} has no such children")
        return self

    def answer(self, features: Sequence[float]) -> float:
        """The value of the leaf that a pair's features lead to."""
        node = 0
        while (feature := self.feature[node]) != _LEAF:
            node = self.left[node] if features[feature] <= self.threshold[node] else self.right[node]
        return self.value[node]


class Training(Record):
    """What the model was made from. ``examples`` are the first 12 hex digits of the SHA-256 of pull request URLs."""

    data: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    repositories: tuple[str, ...]
    examples: tuple[str, ...]
    pairs: int = Field(ge=1)
    positives: int = Field(ge=1)
    method: str


class OfflineModel(Record):
    """Trees whose mean answer is the probability that a pair is one issue, and the probability at which it matches.

    ``agreement`` is what was measured on repositories that each model had not seen (leave-one-repository-out), as
    ``benchmarks/offline_judge.py`` reports it.
    """

    format: Literal["crb.offline-judge/1"]
    features: tuple[str, ...]
    threshold: Annotated[float, Field(gt=0, lt=1)]
    trees: Annotated[tuple[Tree, ...], Field(min_length=1)]
    training: Training
    agreement: dict[str, Any]

    @model_validator(mode="after")
    def _features_are_ours(self) -> OfflineModel:
        if self.features != FEATURES:
            raise ValueError("the model was trained on other features than this version computes")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 over features and trees: all that decides a probability."""
        return fingerprint([self.features, [tree.model_dump(mode="json") for tree in self.trees]])

    def probability(self, features: Sequence[float]) -> float:
        """The probability (0 to 1, four decimals) that a pair with these features is one issue."""
        return round(sum(tree.answer(features) for tree in self.trees) / len(self.trees), 4)

    @classmethod
    def load(cls, path: Path = MODEL_FILE) -> OfflineModel:
        """Read a model file; anything unexpected in it is an InputError."""
        return _load(path)


@functools.cache
def _load(path: Path) -> OfflineModel:
    try:
        return OfflineModel.model_validate(load_json(path))
    except ValidationError as error:
        field, problem = first_problem(error)
        raise InputError(
            f"the offline judge's model is not valid: {problem}",
            where=Where(file=str(path), field=field or None),
            remedy="Install crb again, or train the model with benchmarks/offline_judge.py",
        ) from None

"""The trained part of the judge ``offline``: trees of thresholds, stored beside this module as JSON.

Trained and measured by ``benchmarks/offline_judge.py``; evaluated here, so that the judge needs no machine-learning
library.
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

__all__ = ["MODEL_FILE", "Forest", "OfflineModel", "Training", "Tree"]

#: Where the package keeps the trained model.
MODEL_FILE = Path(__file__).with_name("offline_model.json")

_LEAF = -1

#: Pairs that walk the trees together; bounds the memory of a call.
_BATCH = 4096

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


class Training(Record):
    """What the model was made from.

    ``examples`` are the first 12 hex digits of the SHA-256 of pull request URLs, ``texts`` those of the words of golden
    findings' messages (crb_worker/calibration/tuning.py): data that was copied under other URLs is known by them.
    """

    data: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    repositories: tuple[str, ...]
    examples: tuple[str, ...]
    texts: tuple[str, ...] = ()
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

    @classmethod
    def load(cls, path: Path = MODEL_FILE) -> OfflineModel:
        """Read a model file; anything unexpected in it is an InputError."""
        return _load(path)


class Forest:
    """Trees, laid out so that many pairs walk them at once."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        import numpy as np

        widest = max(len(tree.feature) for tree in trees)

        def table(name: str, filler: float) -> Any:
            rows = [list(getattr(tree, name)) for tree in trees]
            return np.array([row + [filler] * (widest - len(row)) for row in rows])

        self._feature, self._threshold = table("feature", _LEAF), table("threshold", 0.0)
        self._left, self._right, self._value = table("left", 0), table("right", 0), table("value", 0.0)

    def probabilities(self, rows: Sequence[Sequence[float]]) -> list[float]:
        """For each row of features, the mean answer of the trees: 0 to 1, four decimals."""
        import numpy as np

        answers: list[float] = []
        trees = np.arange(len(self._feature))
        for start in range(0, len(rows), _BATCH):
            values = np.array(rows[start : start + _BATCH], dtype=float)
            pairs = np.arange(len(values))[:, None]
            node = np.zeros((len(values), len(trees)), dtype=int)
            while (inner := (feature := self._feature[trees, node]) != _LEAF).any():
                goes_left = values[pairs, feature] <= self._threshold[trees, node]
                child = np.where(goes_left, self._left[trees, node], self._right[trees, node])
                node = np.where(inner, child, node)
            answers += [round(float(mean), 4) for mean in self._value[trees, node].mean(axis=1)]
        return answers


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

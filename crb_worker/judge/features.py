"""How alike a candidate and a golden finding are, as numbers that hold on repositories never seen before.

Three views of a text: its words (identifiers whole), its stems (identifiers split), and its concepts (kinds of
problem, see ``concepts``). Weights come from the golden texts of the corpus, and a term that no golden text has gets
the highest: on a new repository it is a new identifier, not noise. A fourth view lowers the stems that many findings
of this pull request share, because they name its subject and not a problem.
"""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crb_core.corpus import fingerprint
from crb_worker.judge.concepts import CONCEPTS, STOP_WORDS

__all__ = ["FEATURES", "Pair", "Vocabulary", "pair_features", "words"]

#: Names of the numbers that ``pair_features`` gives for a pair, in order, all from -1 to 1. ``cosine``: of weighted
#: counts. ``golden_share`` and ``candidate_share``: the part of one text's weight that the other has. ``lead_golden``:
#: this pair's value less the best of the same candidate with another golden; ``lead_candidate``: less the best of the
#: same golden with another candidate.
FEATURES = (
    "word_cosine",
    "word_golden_share",
    "word_candidate_share",
    "stem_cosine",
    "stem_golden_share",
    "stem_candidate_share",
    "concept_cosine",
    "concept_golden_share",
    "local_cosine",
    "local_golden_share",
    "local_candidate_share",
    "word_cosine_lead_golden",
    "word_cosine_lead_candidate",
    "stem_cosine_lead_golden",
    "stem_cosine_lead_candidate",
    "local_cosine_lead_golden",
    "local_cosine_lead_candidate",
    "local_golden_share_lead_golden",
    "local_golden_share_lead_candidate",
)

#: A pair of positions: candidate, golden.
Pair = tuple[int, int]

_LEADS = ("word_cosine", "stem_cosine", "local_cosine", "local_golden_share")
_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W0-9A-Za-z_]+")
# Longest first, so that "ations" is not cut to "ation".
_SUFFIXES = tuple("ization ations ation ingly edly ings ing ions ion ies ied ers ed es er ly s".split())  # noqa: SIM905
_SHORTEST_STEM = 3
_LONGEST_UNSTEMMED = 4
_LONGEST_WORD = 64


def words(text: str) -> list[str]:
    """The words of a text in order, with their case; invisible characters are dropped, look-alike forms joined."""
    if not text.isascii():
        plain = unicodedata.normalize("NFKC", text)
        text = "".join(character for character in plain if unicodedata.category(character) != "Cf")
    return _WORD.findall(text)


def stem(word: str) -> str:
    """A word without its ending: cruder than a dictionary, and never in need of one."""
    return _stem(word) if _LONGEST_UNSTEMMED < len(word) <= _LONGEST_WORD else word


@functools.lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            return word[: -len(suffix)]
    return word


class _Terms:
    """The three views of one text, as counts of terms."""

    def __init__(self, text: str) -> None:
        found = words(text)
        parts = [part.lower() for word in found for part in _PART.findall(word)]
        self.views: dict[str, Counter[str]] = {
            "word": Counter(word.lower() for word in found),
            "stem": Counter(stem(part) for part in parts if part not in STOP_WORDS),
            "concept": Counter(CONCEPTS[part] for part in parts if part in CONCEPTS),
        }


class _Side:
    """One text with its weights: ``unit`` vectors of length 1 and plain ``weight`` by term, in each view."""

    def __init__(self, terms: _Terms, vocabulary: Vocabulary) -> None:
        self.terms = terms
        self.weight: dict[str, dict[str, float]] = {}
        self.total: dict[str, float] = {}
        self.unit: dict[str, dict[str, float]] = {}
        for view, counts in terms.views.items():
            weight = {term: vocabulary.weight(view, term) for term in counts}
            self._set(view, weight, {term: count * weight[term] for term, count in counts.items()})

    def set_local(self, spread: Mapping[str, float]) -> None:
        """Add the view ``local``: stems weighted down by how many findings of the pull request share them."""
        weight = {term: value * spread[term] for term, value in self.weight["stem"].items()}
        self._set("local", weight, weight)

    def _set(self, view: str, weight: dict[str, float], vector: Mapping[str, float]) -> None:
        length = math.sqrt(math.fsum(value * value for value in vector.values()))
        self.weight[view] = weight
        self.total[view] = math.fsum(weight.values())
        self.unit[view] = {term: value / length for term, value in vector.items()} if length else {}


class Vocabulary:
    """How rare each term is among the golden texts of a corpus."""

    def __init__(self, golden_texts: Iterable[str]) -> None:
        texts = list(dict.fromkeys(golden_texts))
        self._documents = len(texts)
        self._frequencies: dict[str, Counter[str]] = {"word": Counter(), "stem": Counter(), "concept": Counter()}
        for text in texts:
            for view, counts in _Terms(text).views.items():
                self._frequencies[view].update(counts.keys())

    def weight(self, view: str, term: str) -> float:
        """Inverse document frequency: 1 for a term of every text, the highest for one of none."""
        return math.log((1 + self._documents) / (1 + self._frequencies[view][term])) + 1

    @property
    def digest(self) -> str:
        """SHA-256 over all that decides a weight."""
        content: list[Any] = [self._documents, {view: dict(counts) for view, counts in self._frequencies.items()}]
        return fingerprint(content)


def pair_features(
    candidates: Sequence[str], golden: Sequence[str], pairs: Sequence[Pair], vocabulary: Vocabulary
) -> dict[Pair, tuple[float, ...]]:
    """The numbers named by ``FEATURES`` for each of ``pairs``.

    All candidates and goldens of a pull request belong into one call: local weights look at all of them, leads at all
    ``pairs``.
    """
    left = [_Side(_Terms(text), vocabulary) for text in candidates]
    right = [_Side(_Terms(text), vocabulary) for text in golden]
    shared_by = Counter(term for side in (*left, *right) for term in side.weight["stem"])
    spread = {term: math.log((1 + len(left) + len(right)) / count) for term, count in shared_by.items()}
    for side in (*left, *right):
        side.set_local(spread)
    values = {pair: _compare(left[pair[0]], right[pair[1]]) for pair in pairs}
    for name in _LEADS:
        _add_leads(values, name)
    return {pair: tuple(value[name] for name in FEATURES) for pair, value in values.items()}


def _compare(candidate: _Side, golden: _Side) -> dict[str, float]:
    result = {}
    for view in ("word", "stem", "concept", "local"):
        weights = candidate.weight[view]
        shared = [term for term in golden.weight[view] if term in weights]
        unit = candidate.unit[view]
        other = golden.unit[view]
        weight = math.fsum(weights[term] for term in shared)
        result[f"{view}_cosine"] = math.fsum(unit[term] * other[term] for term in shared) if unit and other else 0.0
        result[f"{view}_golden_share"] = weight / golden.total[view] if golden.total[view] else 0.0
        result[f"{view}_candidate_share"] = weight / candidate.total[view] if candidate.total[view] else 0.0
    return result


def _add_leads(values: Mapping[Pair, dict[str, float]], name: str) -> None:
    for lead, axis in (("lead_golden", 0), ("lead_candidate", 1)):
        best: dict[int, tuple[float, float]] = {}
        for pair, value in values.items():
            first, second = best.get(pair[axis], (0.0, 0.0))
            number = value[name]
            best[pair[axis]] = (number, first) if number >= first else (first, max(second, number))
        for pair, value in values.items():
            first, second = best[pair[axis]]
            value[f"{name}_{lead}"] = value[name] - (second if value[name] >= first else first)

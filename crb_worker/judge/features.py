"""Words of findings and how alike two findings are."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

__all__ = ["WordVectors", "words"]

_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """The words of a text in order, lower case; identifiers stay whole, invisible characters are dropped."""
    plain = unicodedata.normalize("NFKC", text)
    visible = "".join(character for character in plain if unicodedata.category(character) != "Cf")
    return _WORD.findall(visible.lower())


class WordVectors:
    """TF-IDF vectors of unit length, with document frequencies from the golden texts of a corpus.

    A term that no golden text has gets the highest weight: on a new repository it is a new identifier, not noise.
    """

    def __init__(self, golden_texts: Iterable[str]) -> None:
        self.frequencies: Counter[str] = Counter()
        documents = 0
        for text in dict.fromkeys(golden_texts):
            self.frequencies.update(dict.fromkeys(words(text), 1))
            documents += 1
        self.documents = documents

    def weight(self, word: str) -> float:
        """Inverse document frequency, at least 1."""
        return math.log((1 + self.documents) / (1 + self.frequencies.get(word, 0))) + 1

    def vector(self, text: str) -> dict[str, float]:
        """Weights by word; empty for a text without words."""
        raw = {word: count * self.weight(word) for word, count in Counter(words(text)).items()}
        length = math.sqrt(math.fsum(value * value for value in raw.values()))
        return {word: value / length for word, value in raw.items()}


def cosine(left: dict[str, float], right: dict[str, float]) -> float:
    """The cosine of two unit vectors, 0 to 1; 0 where either is empty."""
    return min(1.0, math.fsum(value * right[word] for word, value in left.items() if word in right))

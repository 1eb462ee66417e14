"""Storing corpora."""

from __future__ import annotations

import pytest

from crb_core.errors import InputError
from crb_core.store import Store
from crb_core.store.corpora import find_corpus, save_corpus
from tests.crb_core.store.planned import corpus


def test_the_same_corpus_is_stored_once(store: Store) -> None:
    """The same content again is the same id."""
    with store.write() as connection:
        assert save_corpus(connection, corpus(2)) == save_corpus(connection, corpus(2))


def test_a_corpus_does_not_change_its_protocol(store: Store) -> None:
    """Equal findings under another protocol are scored in another way: never taken for the stored corpus."""
    other = corpus(2).model_copy(update={"protocol": "answer-key"})
    with store.write() as connection:
        save_corpus(connection, corpus(2))
        with pytest.raises(InputError, match="small is stored for the protocol reviewbench, not answer-key"):
            save_corpus(connection, other)
        renamed = save_corpus(connection, other.model_copy(update={"name": "small-key"}))
        assert find_corpus(connection, "small-key") == renamed

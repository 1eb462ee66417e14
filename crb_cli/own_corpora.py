"""Corpora that commands make from others: which names they may have, and storing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crb_core.errors import InputError

if TYPE_CHECKING:
    from crb_core.corpus import Corpus
    from crb_core.settings import Settings

__all__ = ["require_own_corpus_name", "store_corpus"]


def require_own_corpus_name(name: str) -> None:
    """Refuse the name of a bundled corpus: a stored one under it would never be found by its name."""
    from crb_core.bundled import bundled

    if (bundled("corpus") / name).is_dir():
        raise InputError(f"{name} is the name of a bundled corpus", remedy="Save it under another name")


def store_corpus(settings: Settings, corpus: Corpus) -> None:
    """Store a corpus that a command made; the home is made where there is none yet."""
    from crb_cli.home import open_home
    from crb_core.store import open_store
    from crb_core.store.corpora import save_corpus

    open_home(settings)
    store = open_store(settings.resolved_store_url)
    try:
        with store.write() as connection:
            save_corpus(connection, corpus)
    finally:
        store.close()

"""The store: the truth about sweeps, trials, steps, attempts and judgments."""

from crb_core.store.session import Store, open_store

__all__ = ["Store", "open_store"]

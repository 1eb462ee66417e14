"""Whatever bytes come from outside, a parser gives records or one plain sentence; never a traceback, never a hang."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.check import check_document
from tests.fuzz.mutations import mutated
from tests.fuzz.targets import TARGETS

#: Documents a parser; `python -m tests.fuzz` tries as many as there is time for.
EXAMPLES = int(os.environ.get("CRB_FUZZ_EXAMPLES", "60"))

FOREIGN = (b"", b"\0" * 2000, b"[" * 100_000, b"{}", b"null", b"\xff" * 300, b'"', b"a" * 100_000)


@pytest.mark.parametrize("name", list(TARGETS))
def test_seeds_are_valid(name: str) -> None:
    """Damage says something only where the undamaged document is accepted."""
    for seed in TARGETS[name].seeds():
        assert check_document(TARGETS[name], seed)


@pytest.mark.parametrize("name", list(TARGETS))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(number=st.integers(0, 2**40), which=st.integers(0, 100))
def test_damaged_documents(name: str, number: int, which: int) -> None:
    """Records, or a CrbError whose text is one printable line that ends as a sentence."""
    seeds = TARGETS[name].seeds()
    check_document(TARGETS[name], mutated(seeds[which % len(seeds)], number))


@pytest.mark.parametrize("name", list(TARGETS))
@pytest.mark.parametrize(
    "data", [b"", b"\0" * 2000, b"[" * 100_000, b"{}", b"null", b"\xff" * 300, b'"', b"a" * 100_000]
)
def test_foreign_documents(name: str, data: bytes) -> None:
    """What was never such a document."""
    check_document(TARGETS[name], data)

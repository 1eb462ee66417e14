"""Operations over HTTP under what the document allows and forbids: with a token, without one, and one after another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    ignored_auth,
    negative_data_rejection,
    positive_data_acceptance,
)

from crb_core.settings import Settings
from crb_web.app import create_app
from crb_web.limits import LimitRules
from tests.crb_web.operated import OPERATE, Operated, running

#: Every operation that changes something.
OPERATIONS = sorted(
    path
    for path, methods in create_app(Settings(home=Path("unused")), rules=OPERATE, check_unchanged=lambda _: [])
    .openapi()["paths"]
    .items()
    if "post" in methods
)
#: How a request that the document forbids is answered; one that it allows may name what is not stored.
REFUSED = (400, 404, 413, 414)
#: These have tests of their own here: a token is always sent, and what is allowed may still not be possible now.
LEFT_OUT = [positive_data_acceptance, negative_data_rejection, ignored_auth]


def examples(count: int) -> settings:
    return settings(
        max_examples=count,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )


@dataclass
class Served:
    """A running server that operates, what it serves, and its document as it says it itself."""

    operated: Operated
    origin: str
    document: Any

    def call(self, case: schemathesis.Case, *, token: str | None = "bo") -> Any:
        """Send a request, about the stored sweep and its first trial where it names any."""
        known = {"sweep": self.operated.planned.sweep_id, "trial": 1}
        case.path_parameters |= {name: value for name, value in known.items() if name in case.path_parameters}
        return self.send(case, token=token)

    def send(self, case: schemathesis.Case, *, token: str | None = "bo") -> Any:
        headers = {} if token is None else self.operated.bearer(token)
        return case.call(headers=headers)

    def progress(self) -> Any:
        with urlopen(Request(f"{self.origin}{self.operated.api}/progress"), timeout=60) as answer:
            return json.load(answer)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A throwaway store: whatever is asked of it may be done."""
    operated = Operated.make(tmp_path_factory.mktemp("operated"), limits=LimitRules(per_second=1e6, burst=10**6))
    with running(operated.app) as port:
        origin = f"http://127.0.0.1:{port}"
        yield Served(operated, origin, schemathesis.openapi.from_url(f"{origin}/api/v1/openapi.json"))
    operated.store.close()


@pytest.mark.parametrize("path", OPERATIONS)
def test_an_operation_keeps_what_its_document_promises(served: Served, path: str) -> None:
    """Of a stored sweep and of any other: no server error, documented statuses, every answer of its schema."""

    @examples(6)
    @given(served.document[path]["POST"].as_strategy(generation_mode=GenerationMode.POSITIVE), st.booleans())
    def for_a_request(case: schemathesis.Case, is_known: bool) -> None:
        answer = served.call(case) if is_known else served.send(case)
        case.validate_response(answer, excluded_checks=LEFT_OUT)

    for_a_request()


@pytest.mark.parametrize("path", OPERATIONS)
def test_what_a_document_forbids_is_refused_and_changes_nothing(served: Served, path: str) -> None:
    """Other types, unknown fields, too long, no JSON: a sentence, and the sweep is as it was."""
    before = served.progress()["by_state"]

    @examples(6)
    @given(served.document[path]["POST"].as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def for_a_request(case: schemathesis.Case) -> None:
        answer = served.send(case)
        assert answer.status_code in REFUSED, answer.text
        case.validate_response(answer, excluded_checks=LEFT_OUT)

    for_a_request()
    assert served.progress()["by_state"] == before


@pytest.mark.parametrize(("token", "status"), [(None, 401), ("rea", 403)])
def test_nothing_is_done_without_an_operators_token(served: Served, token: str | None, status: int) -> None:
    """Whatever the body says, before it is read."""
    for path in OPERATIONS:

        @examples(2)
        @given(served.document[path]["POST"].as_strategy(generation_mode=GenerationMode.POSITIVE))
        def for_a_request(case: schemathesis.Case) -> None:
            answer = served.call(case, token=token)
            assert answer.status_code == status
            case.validate_response(answer, excluded_checks=LEFT_OUT)

        for_a_request()


def test_operations_one_after_another_lose_no_trial(served: Served) -> None:
    """Any operations of the document in any order: each trial stays in exactly one state, and the page can be read."""
    strategies = [
        served.document[path]["POST"].as_strategy(generation_mode=GenerationMode.POSITIVE) for path in OPERATIONS
    ]

    @examples(5)
    @given(st.lists(st.one_of(strategies), min_size=2, max_size=8))
    def for_a_sequence(cases: list[schemathesis.Case]) -> None:
        for case in cases:
            answer = served.call(case)
            case.validate_response(answer, excluded_checks=LEFT_OUT)
            progress = served.progress()
            assert sum(progress["by_state"].values()) == progress["trials"] == 3

    for_a_sequence()

"""Every operation of the API under what its document allows and forbids: no fault, and answers as it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from benchmarks.web import served
from crb_core.settings import Settings
from crb_web.app import create_app

#: What the tests' home holds, so that generated requests meet something.
KNOWN = {"sweep": "bench", "key": "pr-1", "trial": 1, "fingerprint": "j-bench"}
#: How a request that the document forbids is answered. One that it allows may name what is not stored.
REFUSED = (400, 404, 414)
OPERATIONS = sorted(create_app(Settings(home=Path("unused"))).openapi()["paths"])
EXAMPLES = settings(
    max_examples=3,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def document(home: Path) -> Iterator[Any]:
    """The OpenAPI document of a running ``crb serve``, read from it."""
    with served(home) as (host, _):
        yield schemathesis.openapi.from_url(f"http://{host}/api/v1/openapi.json")


def holds(document: Any, path: str, mode: GenerationMode, known: dict[str, Any]) -> None:
    @EXAMPLES
    @given(document[path]["GET"].as_strategy(generation_mode=mode))
    def for_a_request(case: schemathesis.Case) -> None:
        case.path_parameters |= {name: value for name, value in known.items() if name in case.path_parameters}
        answer = case.call()
        if mode is GenerationMode.NEGATIVE:
            assert answer.status_code in REFUSED
        case.validate_response(answer, excluded_checks=[positive_data_acceptance, negative_data_rejection])

    for_a_request()


@pytest.mark.parametrize("path", OPERATIONS)
def test_an_operation_keeps_what_its_document_promises(document: Any, path: str) -> None:
    """No server error, only documented statuses and types, and every answer of its schema."""
    holds(document, path, GenerationMode.POSITIVE, {})


@pytest.mark.parametrize("path", [path for path in OPERATIONS if "{" in path])
def test_what_a_document_forbids_is_refused(document: Any, path: str) -> None:
    """Too long, too large, of another type: a sentence and never a fault."""
    holds(document, path, GenerationMode.NEGATIVE, {})


@pytest.mark.parametrize("path", [path for path in OPERATIONS if any(f"{{{name}}}" in path for name in KNOWN)])
def test_an_operation_keeps_it_for_things_that_exist(document: Any, path: str) -> None:
    """The same where the sweep, pull request, trial or judge of the path is a stored one."""
    holds(document, path, GenerationMode.POSITIVE, KNOWN)

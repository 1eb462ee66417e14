"""Every operation of the API under what its document allows and forbids: no fault, and answers as it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from crb_core.settings import Settings
from crb_web.app import create_app

#: What the tests' home holds, so that generated requests meet something.
KNOWN = {"sweep": "bench", "key": "pr-1", "trial": 1, "fingerprint": "j-bench"}
OPERATIONS = sorted(create_app(Settings(home=Path("unused"))).openapi()["paths"])
EXAMPLES = settings(
    max_examples=15,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def document(home: Path) -> Any:
    """The OpenAPI document of a server over the home, read from it."""
    app = create_app(Settings(home=home), hosts=("testserver",))
    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)


@pytest.mark.parametrize("path", OPERATIONS)
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_an_operation_keeps_what_its_document_promises(document: Any, path: str, mode: GenerationMode) -> None:
    """No server error, only documented statuses and types, answers of their schema; what is forbidden is refused."""

    @EXAMPLES
    @given(document[path]["GET"].as_strategy(generation_mode=mode))
    def holds(case: schemathesis.Case) -> None:
        case.call_and_validate()

    holds()


@pytest.mark.parametrize("path", [path for path in OPERATIONS if any(f"{{{name}}}" in path for name in KNOWN)])
def test_an_operation_keeps_it_for_things_that_exist(document: Any, path: str) -> None:
    """The same where the sweep, pull request, trial or judge of the path is a stored one."""

    @EXAMPLES
    @given(document[path]["GET"].as_strategy())
    def holds(case: schemathesis.Case) -> None:
        case.path_parameters |= {name: value for name, value in KNOWN.items() if name in case.path_parameters}
        case.call_and_validate()

    holds()

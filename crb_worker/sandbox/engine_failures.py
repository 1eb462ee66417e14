"""What goes wrong between this process and the engine, in plain words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import docker.errors
import requests
import urllib3

__all__ = ["EngineFailureError", "engine_calls", "is_read_timeout"]


class EngineFailureError(Exception):
    """The engine refused a call or did not answer. ``status`` is its HTTP status, None where it did not answer."""

    def __init__(self, problem: str, status: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.status = status


@contextlib.contextmanager
def engine_calls(doing: str) -> Iterator[None]:
    """Turns the SDK's many errors into EngineFailureError: ``doing`` names what was tried."""
    try:
        yield
    except docker.errors.APIError as error:
        status = error.response.status_code if error.response is not None else None
        raise EngineFailureError(f"The engine failed at {doing}: {_explanation(error)}", status) from None
    except (docker.errors.DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        kind = "did not answer in time" if is_read_timeout(error) else "cannot be reached"
        raise EngineFailureError(f"The engine {kind} at {doing}") from None


def _explanation(error: docker.errors.APIError) -> str:
    text = str(error.explanation or error)
    return " ".join(text.split())[:400]


def is_read_timeout(error: BaseException) -> bool:
    """Whether only our own patience ended: the SDK reports that in the same class as a broken connection."""
    if isinstance(error, requests.ReadTimeout | urllib3.exceptions.ReadTimeoutError):
        return True
    return isinstance(error, requests.ConnectionError) and any(
        isinstance(cause, urllib3.exceptions.ReadTimeoutError) for cause in error.args
    )

"""Images: from a reference to what runs, and back to an image that is missing here."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

from crb_core.errors import InputError, UnavailableError, Where
from crb_worker.sandbox.contract import ResolvedImage
from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.engine_failures import EngineFailureError, engine_calls

__all__ = ["Images", "repository_of"]

_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*([/:@][A-Za-z0-9][A-Za-z0-9._-]*)*")
_IMAGE_ID = re.compile(r"(sha256:)?[0-9a-f]{64}")
#: Names that are built here. A registry that has one of the same name has something else.
_LOCAL_PREFIX = "crb/"


def repository_of(reference: str) -> str:
    """The name before tag and digest: ``ghcr.io/a/b:1@sha256:...`` gives ``ghcr.io/a/b``."""
    name = reference.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return head + slash + last.partition(":")[0]


class Images:
    """Resolves references, and pulls what is missing, once however many attempts ask for it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._pulling: dict[str, threading.Lock] = {}

    def resolve(self, reference: str, *, pull: bool = True) -> ResolvedImage:
        """The image that ``reference`` (tag, digest or id) stands for.

        An image that is not here is pulled if ``pull`` allows it and a registry can have it. UnavailableError, with
        what to do, if it cannot be had.
        """
        if len(reference) > 400 or not _REFERENCE.fullmatch(reference):
            raise InputError(f"{reference[:100]!r} is not an image reference", where=Where(field="image"))
        found = self._inspect(reference)
        if found is None:
            self._fetch(reference, pull)
            found = self._inspect(reference)
        if found is None:
            raise UnavailableError(f"the image {reference} was pulled, but the engine does not have it")
        return ResolvedImage(
            reference=reference,
            image_id=found["Id"],
            repo_digest=_repo_digest(reference, found.get("RepoDigests") or []),
            architecture=found.get("Architecture") or None,
        )

    def restore(self, image_id: str, *names: str | None) -> None:
        """Have the engine hold ``image_id`` again, pulled by one of ``names`` (repository digests).

        Nothing is pulled where it is here after all. UnavailableError if it cannot be had, or if the registry has
        something else under that name.
        """
        if self._inspect(image_id) is not None:
            return
        for name in names:
            if name is not None and "@sha256:" in name:
                if self.resolve(name).image_id == image_id:
                    return
                raise UnavailableError(
                    f"the image {name} is not the one that the agent build records ({image_id})",
                    remedy="Start a new sweep with the image that is there now",
                )
        raise UnavailableError(
            f"the image {image_id} is not on this machine and no registry is known for it",
            remedy="Build the agent on this machine, or give it an image in a registry",
        )

    def _inspect(self, reference: str) -> dict[str, Any] | None:
        try:
            with engine_calls("looking up an image"):
                inspect: Callable[[str], dict[str, Any]] = self._engine.api.inspect_image
                return inspect(reference)
        except EngineFailureError as error:
            if error.status in {400, 404}:
                return None
            raise UnavailableError(error.problem, remedy="Check the Docker engine with crb doctor") from None

    def _fetch(self, reference: str, pull: bool) -> None:
        missing = f"the image {reference} is not on this machine"
        if _IMAGE_ID.fullmatch(reference) or repository_of(reference).startswith(_LOCAL_PREFIX):
            raise UnavailableError(
                f"{missing} and no registry can have it",
                remedy="Build it: crb agent build NAME for an agent, make base-image for the base image",
            )
        if not pull:
            raise UnavailableError(missing, remedy=f"Pull it: docker pull {reference}")
        with self._lock:
            lock = self._pulling.setdefault(reference, threading.Lock())
        with lock:
            if self._inspect(reference) is not None:
                return
            try:
                with engine_calls("pulling an image"):
                    self._pull(reference)
            except EngineFailureError as error:
                raise UnavailableError(
                    f"{missing} and could not be pulled: {error.problem}",
                    where=Where(field="image"),
                    remedy="Check its name and the way to its registry, or build it on this machine",
                ) from None

    def _pull(self, reference: str) -> None:
        name, at, digest = reference.partition("@")
        repository = repository_of(reference)
        tag = digest if at else (name.removeprefix(repository).removeprefix(":") or "latest")
        # The stream has to be read to its end: the engine pulls as it is read, and reports errors in it.
        stream: Iterator[dict[str, Any]] = self._engine.api.pull(repository, tag=tag, stream=True, decode=True)
        for event in stream:
            if "error" in event:
                raise EngineFailureError(" ".join(str(event["error"]).split())[:400])


def _repo_digest(reference: str, digests: list[str]) -> str | None:
    repository = repository_of(reference)
    same = [digest for digest in digests if repository_of(digest) == repository]
    return min(same or digests, default=None)

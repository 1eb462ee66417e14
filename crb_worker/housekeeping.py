"""What a machine keeps and may give up: evidence that no row names, snapshots that can be built again, old images."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crb_core.errors import UnavailableError
from crb_core.evidence import YOUNG_SECONDS, Blob, EvidenceStore
from crb_core.housekeeping import Thing
from crb_core.store import Store
from crb_core.store.references import (
    named_digests,
    named_images,
    pull_requests_at_work,
    request_digests,
    request_parts,
)
from crb_worker.sandbox.build import AGENT_LABEL
from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.engine_failures import EngineFailureError, engine_calls
from crb_worker.sandbox.engine_formats import engine_nanoseconds
from crb_worker.snapshot import SnapshotCache

__all__ = ["Found", "evidence_things", "image_things", "snapshot_things"]


@dataclass(frozen=True, kw_only=True)
class Found:
    """Things of one kind and how to remove one of them by name; ``remove`` says why it did not, or None.

    ``problem`` is a sentence about what kept all of them; None where it is known which are needed.
    """

    things: tuple[Thing, ...]
    remove: Callable[[str], str | None]
    problem: str | None = None


def evidence_things(store: Store, evidence: EvidenceStore) -> Found:
    """Every blob. One that is named anywhere in the store is kept.

    So is all the rest where a judge's request, which names further blobs, cannot be read.
    """
    # Blobs first: a row that comes later names a blob that was written, or made young, later too.
    blobs = {blob.path: blob for blob in evidence.blobs()}
    with store.read() as connection:
        named = named_digests(connection)
        requests = request_digests(connection)
    unreadable = []
    for digest in requests:
        parts = request_parts(evidence, digest)
        if parts is None:
            unreadable.append(digest)
        else:
            named.update(parts)

    def remove(path: str) -> str | None:
        blob = blobs[path]
        if _is_young_again(evidence, blob):
            return "it was written again just now"
        evidence.remove(blob)
        return None

    return Found(
        things=tuple(
            Thing(
                kind="evidence",
                name=blob.path,
                shown_as=blob.digest or blob.path,
                size=blob.size,
                last_used=blob.stored_at,
                kept_because="a row names it"
                if blob.digest in named
                else "a judge's request that cannot be read may name it"
                if unreadable and blob.digest is not None
                else None,
            )
            for blob in blobs.values()
        ),
        remove=remove,
        problem=_unreadable(unreadable),
    )


def _unreadable(requests: Sequence[str]) -> str | None:
    if not requests:
        return None
    what = "1 request of a judge" if len(requests) == 1 else f"{len(requests)} requests of judges"
    return (
        f"All evidence is kept: {what} cannot be read, so nobody knows which blobs are named there "
        f"(the first is {requests[0]}). Restore them from a backup."
    )


def _is_young_again(evidence: EvidenceStore, blob: Blob) -> bool:
    if blob.digest is None:
        return False
    stored_at = evidence.stored_at(blob.digest)
    return stored_at is not None and time.time() - stored_at < YOUNG_SECONDS


def snapshot_things(store: Store, cache: SnapshotCache) -> Found:
    """Every cached snapshot. Those of pull requests that still have work are kept."""
    with store.read() as connection:
        at_work = {cache.entry_name(pull_request) for pull_request in pull_requests_at_work(connection)}

    def remove(name: str) -> str | None:
        return None if cache.remove(name) else "it is being built"

    return Found(
        things=tuple(
            Thing(
                kind="snapshot",
                name=entry.name,
                shown_as=entry.name,
                size=entry.size,
                last_used=entry.last_used,
                kept_because="its pull request has steps to do" if entry.name in at_work else None,
            )
            for entry in cache.entries()
        ),
        remove=remove,
    )


def image_things(store: Store, engine: Engine) -> Found:
    """Images of agents that crb built on this machine. Those that a build in the store names are kept.

    Sizes count layers that images share once for each of them, as the engine does. UnavailableError where it does not
    answer.
    """
    with store.read() as connection:
        named = named_images(connection)
    try:
        with engine_calls("listing images"):
            images: Sequence[Mapping[str, Any]] = engine.api.images(filters={"label": AGENT_LABEL})
            containers = engine.api.containers(all=True)
            inspect: Callable[[str], dict[str, Any]] = engine.api.inspect_image
            last_used = {image["Id"]: _tagged_at(inspect(image["Id"])) for image in images}
    except EngineFailureError as error:
        raise UnavailableError(error.problem, remedy="Check the Docker engine with crb doctor") from None
    in_containers = {container["ImageID"] for container in containers}

    def remove(image_id: str) -> str | None:
        try:
            with engine_calls("removing an image"):
                # An image with several names goes only by force; a container's image does not go even so.
                engine.api.remove_image(image_id, force=True)
        except EngineFailureError as error:
            return None if error.status == 404 else error.problem
        return None

    return Found(
        things=tuple(
            Thing(
                kind="image",
                name=image["Id"],
                shown_as=next(iter(image.get("RepoTags") or ()), image["Id"][:19]),
                size=int(image["Size"]),
                last_used=last_used[image["Id"]],
                kept_because="a container has it" if image["Id"] in in_containers else named.get(image["Id"]),
            )
            for image in images
        ),
        remove=remove,
    )


def _tagged_at(facts: Mapping[str, Any]) -> float | None:
    """When an image was made or named last, in seconds since the epoch."""
    moments = (
        engine_nanoseconds((facts.get("Metadata") or {}).get("LastTagTime")),
        engine_nanoseconds(facts["Created"]),
    )
    return max((moment / 1e9 for moment in moments if moment is not None), default=None)

"""Building an agent's image from its folder."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crb_core.agent_source import AgentSource
from crb_core.errors import InputError, UnavailableError, Where
from crb_worker.sandbox.contract import ResolvedImage
from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.engine_failures import EngineFailureError, engine_calls
from crb_worker.sandbox.images import Images

__all__ = ["AGENT_LABEL", "BASE_IMAGES", "BuiltImage", "ImageBuildError", "ImageBuilder"]

#: Base images of the bundled agents, best first: the public one, and the one that is made without any registry.
BASE_IMAGES = ("python:3.11-slim-bookworm", "crb/base:bookworm")
#: Seconds that a step of a build may be silent.
_BUILD_SILENCE = 1800
#: How much of a failing step is told.
_LAST_LINES = 8
#: Builds of one image before the engine's race below counts as a failure.
_BUILDS = 5
#: The engine says this where an image that it compares for its cache is removed in that moment, by whomever.
_LOST_TO_A_REMOVAL = 'unable to find image "sha256:'
#: On every image of an agent that crb built: the agent's name.
AGENT_LABEL = "crb.agent"
_CONTEXT_LABEL = "crb.context"
_BASE_LABEL = "crb.base"
_STEP = re.compile(r"^Step \d+/\d+ : ")
#: Lines of the engine among those of the step.
_ENGINES_OWN = (" --->", "Removing intermediate container")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class ImageBuildError(UnavailableError):
    """A Dockerfile's step failed. ``step`` is the step, ``reason`` the engine's, ``lines`` the last ones printed."""

    def __init__(self, agent: str, dockerfile: str, step: str, reason: str, lines: tuple[str, ...]) -> None:
        said = f"; its last lines: {' | '.join(lines)}" if lines else ""
        at = f" at {step}" if step else ""
        super().__init__(
            f"the image of agent {agent} cannot be built{at}: {reason}{said}",
            where=Where(file=dockerfile),
            remedy="Mend the step; where it needs a package index that answers on the host only, "
            "set CRB_BUILD_NETWORK=host",
        )
        self.step = step
        self.reason = reason
        self.lines = lines


@dataclass(frozen=True, kw_only=True)
class BuiltImage:
    """An agent's image. ``was_there`` says that the same context and base had been built before."""

    reference: str
    image_id: str
    base: ResolvedImage
    was_there: bool


class ImageBuilder:
    """Builds agents' images, each context and base once.

    ``network_mode`` is the engine's for the steps of a build, ``host`` where a package index answers only there.
    """

    def __init__(self, engine: Engine, images: Images, *, network_mode: str | None = None) -> None:
        self._engine = engine
        self._images = images
        self._network_mode = network_mode
        self._lock = threading.Lock()

    def base_image(self, wanted: str | None = None) -> ResolvedImage:
        """``wanted``, or else the first of BASE_IMAGES that is here, or else the first one pulled.

        UnavailableError, with what to do, where there is none.
        """
        if wanted:
            return self._images.resolve(wanted)
        for reference in BASE_IMAGES:
            try:
                return self._images.resolve(reference, pull=False)
            except UnavailableError:
                continue
        try:
            return self._images.resolve(BASE_IMAGES[0])
        except UnavailableError as error:
            raise UnavailableError(
                f"there is no base image for agents: {error.problem}",
                remedy="make base-image builds one without a registry, or name your own in CRB_BASE_IMAGE",
            ) from None

    def reference(self, agent: AgentSource, base: ResolvedImage) -> str:
        """The tag: ``crb/agent-<name>:`` and 12 hex digits over context, base image and build network."""
        content = f"{agent.digest}\n{base.image_id}\n{self._network_mode or ''}"
        # An image name may not hold two separators in a row, an agent's name may.
        name = re.sub(r"[._-]*[._-](?=[._-])|[._-]+$", "", agent.manifest.name)
        return f"crb/agent-{name}:{hashlib.sha256(content.encode()).hexdigest()[:12]}"

    def build(
        self,
        agent: AgentSource,
        *,
        base: str | None = None,
        progress: Callable[[str], None] | None = None,
        build_args: Mapping[str, str] | None = None,
    ) -> BuiltImage:
        """The image of an agent's folder, built on ``base`` unless it is there already.

        ``progress`` is called with each line that the engine prints. Raises InputError for a folder that cannot be a
        build context, UnavailableError where the base image or the engine is missing, ImageBuildError for a step.
        """
        files = agent.context_files()
        if agent.dockerfile not in {file.name for file in files}:
            raise InputError(
                f"the agent {agent.manifest.name} has no Dockerfile",
                where=Where(file=str(agent.folder)),
                remedy="Add one, or name a ready image in agent.toml",
            )
        resolved = self.base_image(base)
        reference = self.reference(agent, resolved)
        with self._lock:
            present = self._present(reference, agent)
            if present is not None:
                return BuiltImage(reference=reference, image_id=present, base=resolved, was_there=True)
            labels = {
                AGENT_LABEL: agent.manifest.name,
                _CONTEXT_LABEL: agent.digest,
                _BASE_LABEL: resolved.image_id,
            }
            arguments = {**(build_args or {}), "BASE_IMAGE": resolved.reference}
            for left in reversed(range(_BUILDS)):
                try:
                    self._run(agent, reference, arguments, labels, progress)
                    break
                except ImageBuildError as error:
                    if left == 0 or not error.reason.startswith(_LOST_TO_A_REMOVAL):
                        raise
            built = self._present(reference, agent)
        if built is None:
            raise UnavailableError(f"the engine built {reference} and does not have it", remedy="Build it again")
        return BuiltImage(reference=reference, image_id=built, base=resolved, was_there=False)

    def _run(
        self,
        agent: AgentSource,
        reference: str,
        arguments: dict[str, str],
        labels: dict[str, str],
        progress: Callable[[str], None] | None,
    ) -> None:
        """One build by the engine, to its end."""
        try:
            with engine_calls("a build"):
                events = self._engine.api.build(
                    fileobj=_context(agent),
                    custom_context=True,
                    dockerfile=agent.dockerfile,
                    tag=reference,
                    buildargs=arguments,
                    labels=labels,
                    network_mode=self._network_mode,
                    rm=True,
                    forcerm=True,
                    decode=True,
                    timeout=_BUILD_SILENCE,
                )
                _follow(events, agent, progress)
        except EngineFailureError as error:
            if error.status is not None and error.status < 500:
                raise ImageBuildError(agent.manifest.name, str(agent.folder), "", error.problem, ()) from None
            raise UnavailableError(error.problem, remedy="Check the Docker engine with crb doctor") from None

    def _present(self, reference: str, agent: AgentSource) -> str | None:
        try:
            with engine_calls("looking up an image"):
                image: dict[str, Any] = self._engine.api.inspect_image(reference)  # type: ignore[no-untyped-call]
        except EngineFailureError as error:
            if error.status == 404:
                return None
            raise UnavailableError(error.problem, remedy="Check the Docker engine with crb doctor") from None
        # Somebody may have given the tag to another image.
        labels = (image.get("Config") or {}).get("Labels") or {}
        return str(image["Id"]) if labels.get(_CONTEXT_LABEL) == agent.digest else None


def _context(agent: AgentSource) -> io.BytesIO:
    """The build context as a tar archive whose bytes depend on names, modes and contents only."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in agent.context_files():
            data = file.path.read_bytes()
            entry = tarfile.TarInfo(file.name)
            entry.size = len(data)
            entry.mode = 0o755 if file.executable else 0o644
            archive.addfile(entry, io.BytesIO(data))
    buffer.seek(0)
    return buffer


def _follow(events: Iterator[dict[str, Any]], agent: AgentSource, progress: Callable[[str], None] | None) -> None:
    """Read the build to its end, since the engine reports errors in the stream."""
    step = ""
    lines: deque[str] = deque(maxlen=_LAST_LINES)
    for event in events:
        for line in _ESCAPE.sub("", str(event.get("stream") or event.get("status") or "")).splitlines():
            if not line.strip():
                continue
            if progress is not None:
                progress(line)
            if _STEP.match(line):
                step = line.strip()[:300]
                lines.clear()
            elif not line.startswith(_ENGINES_OWN):
                lines.append(line.strip()[:300])
        if "error" in event:
            reason = " ".join(_ESCAPE.sub("", str(event["error"])).split())[:400]
            raise ImageBuildError(agent.manifest.name, f"{agent.folder}/Dockerfile", step, reason, tuple(lines))

"""From agent names to agent builds: which runner, which image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from crb_core.agent import AgentBuild
from crb_core.agent_source import AgentSource
from crb_core.errors import InputError, UnavailableError
from crb_core.settings import Settings

__all__ = ["ResolvedBuilds", "resolve_builds", "resolved_build", "source_reference"]


@dataclass(frozen=True, kw_only=True)
class ResolvedBuilds:
    """Builds, and why the process runner was taken where it was."""

    runner: str
    reason: str | None
    builds: tuple[AgentBuild, ...]


def resolve_builds(
    sources: Sequence[AgentSource], settings: Settings, *, say: Callable[[str], None] = lambda _: None
) -> ResolvedBuilds:
    """Resolve agents to builds under the runner of the settings.

    ``auto`` takes Docker, and the process runner where no engine answers or the base image is neither here nor to be
    pulled, provided that every agent is a bundled one. A forced runner that cannot be used is an error.
    """
    if settings.runner == "process":
        return _process(sources, None)
    try:
        return _docker(sources, settings, say)
    except UnavailableError as error:
        if settings.runner == "docker" or not all(_may_run_as_process(source) for source in sources):
            raise
        return _process(sources, f"{error.problem}")


def source_reference(named: str, source: AgentSource) -> str:
    """What an agent can be loaded from again: a bundled one's name, else an absolute path."""
    if source.is_bundled:
        return source.manifest.name
    return str(source.folder or Path(named).expanduser().absolute())


def _may_run_as_process(source: AgentSource) -> bool:
    return source.is_bundled and bool(source.manifest.process_command)


def _docker(sources: Sequence[AgentSource], settings: Settings, say: Callable[[str], None]) -> ResolvedBuilds:
    from crb_worker.sandbox.build import ImageBuilder
    from crb_worker.sandbox.engine import Engine
    from crb_worker.sandbox.images import Images

    engine = Engine(1)
    try:
        engine.check()
        images = Images(engine)
        builder = ImageBuilder(engine, images, network_mode=settings.build_network)
        builds = []
        for source in sources:
            manifest = source.manifest
            if manifest.image is not None:
                image = images.resolve(manifest.image)
                reference, image_id, digest = manifest.image, image.image_id, image.repo_digest
            else:
                say(f"image of {manifest.name}")
                built = builder.build(source, base=settings.base_image, progress=lambda line: say(line.strip()))
                reference, image_id, digest = built.reference, built.image_id, None
            builds.append(resolved_build(source, "docker", reference, image_id, digest))
    finally:
        engine.close()
    return ResolvedBuilds(runner="docker", reason=None, builds=tuple(builds))


def _process(sources: Sequence[AgentSource], reason: str | None) -> ResolvedBuilds:
    builds = []
    for source in sources:
        name = source.manifest.name
        if not source.is_bundled:
            raise InputError(
                f"The agent {name} is not bundled with crb, so it runs in a container only",
                remedy="Use --runner docker; the process runner does not isolate an agent from this machine",
            )
        if not source.manifest.process_command:
            raise InputError(f"The agent {name} has no command for the process runner", remedy="Use --runner docker")
        builds.append(resolved_build(source, "process", name, source.digest, None))
    return ResolvedBuilds(runner="process", reason=reason, builds=tuple(builds))


def _private_names(reference: str, image_id: str, digest: str | None) -> tuple[str, str | None]:
    """Reference and repository digest of a private image: the reference can be pulled by, the digest names no place."""
    if digest is None:
        # It was never pulled, so no other machine can have it by that name either.
        return image_id, None
    bare = digest.rpartition("@")[2]
    name, at, _ = reference.partition("@")
    head, slash, last = name.rpartition("/")
    repository = name if at else head + slash + last.partition(":")[0]
    return f"{repository}@{bare}", bare


def resolved_build(source: AgentSource, runner: str, reference: str, image_id: str, digest: str | None) -> AgentBuild:
    """The build of an agent whose image is known; of a private image it does not say in which registry that is."""
    manifest = source.manifest
    if manifest.image is not None and manifest.image_visibility == "private":
        reference, digest = _private_names(reference, image_id, digest)
    return AgentBuild.model_validate(
        {
            "agent": manifest.name,
            "display_name": manifest.display_name,
            "provider": manifest.provider or manifest.display_name,
            "kind": manifest.kind,
            "image": reference,
            "image_id": image_id,
            "repo_digest": digest,
            "configuration": manifest.configuration,
            "model_roles": manifest.model_roles,
            "limits": manifest.effective_limits,
            "secrets": manifest.secrets,
            "egress": manifest.egress,
            "model_api_url": manifest.model_api_url,
            "runner": runner,
        }
    )

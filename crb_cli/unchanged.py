"""Whether an agent is still what its sweep measures: a retry under another configuration would be another build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crb_cli.builds import resolved_build
from crb_core.agent import AgentBuild
from crb_core.agent_source import AgentSource, load_agent
from crb_core.build_difference import build_differences
from crb_core.errors import CrbError, InputError, UnavailableError
from crb_core.settings import Settings
from crb_core.store.retries import Compared, PlannedBuild

__all__ = ["compare_with_now"]


@dataclass(frozen=True, kw_only=True)
class _Image:
    """What an agent's image is now: its id and digest, or why that is not known here."""

    reference: str
    image_id: str
    digest: str | None = None


def compare_with_now(planned: Sequence[PlannedBuild], settings: Settings) -> Compared:
    """Which agents now resolve to another build than their sweep's, with what differs.

    A review is always run with the sweep's own build, whose configuration and image id are stored; what a changed
    agent would give belongs into another sweep. The notes name everything that could not be compared here: an agent of
    unknown origin, an image where no engine answers or that only the farm's machines have.
    """
    refused: dict[tuple[str, str], CrbError] = {}
    notes: list[str] = []
    for one in planned:
        try:
            notes += _compare(one, settings)
        except CrbError as error:
            refused[one.sweep_id, one.build.build_id] = error
    return Compared(refused=refused, notes=tuple(notes))


def _compare(planned: PlannedBuild, settings: Settings) -> list[str]:
    build = planned.build
    if planned.agent_source is None:
        return [f"It is not recorded what agent {build.agent} was loaded from, so it was not compared"]
    try:
        source = load_agent(planned.agent_source)
    except CrbError as error:
        raise InputError(
            f"The agent {build.agent} of sweep {planned.sweep} cannot be loaded from {planned.agent_source} any more, "
            f"so nobody can say whether it is still build {build.build_id}: {error.problem}",
            remedy="Put it back, or measure what is there now in a new sweep",
        ) from None
    notes: list[str] = []
    if build.runner == "process":
        image = _Image(reference=build.image, image_id=source.digest)
    else:
        try:
            image = _image_now(source, build, settings)
        except UnavailableError as error:
            if settings.broker_url is None and build.repo_digest is None:
                raise InputError(
                    f"The image of agent {build.agent} in sweep {planned.sweep} ({build.image_id}) is not to be had: "
                    f"{error.problem}",
                    remedy="Have the engine hold that image again, or measure the agent in a new sweep",
                ) from None
            notes.append(f"The image of agent {build.agent} was not compared: {error.problem}")
            image = _Image(reference=build.image, image_id=build.image_id, digest=build.repo_digest)
    now = resolved_build(source, build.runner, image.reference, image.image_id, image.digest)
    differences = build_differences(build, now)
    if differences:
        raise InputError(
            f"The agent {build.agent} of sweep {planned.sweep} is another build now than {build.build_id}: "
            f"{'; '.join(differences)}",
            remedy="Put the agent back as it was, or measure it under another --name or with --force",
        )
    return notes


def _image_now(source: AgentSource, build: AgentBuild, settings: Settings) -> _Image:
    """What the agent's image is on this machine, without pulling or building. UnavailableError where it is not here.

    An image that is built from a folder has a name that says of what: another folder, base image or build network
    gives another name, which is told instead of an id.
    """
    from crb_worker.sandbox.build import BASE_IMAGES, ImageBuilder
    from crb_worker.sandbox.contract import ResolvedImage
    from crb_worker.sandbox.engine import Engine
    from crb_worker.sandbox.images import Images

    engine = Engine(1)
    try:
        engine.check()
        images = Images(engine)

        def here(*references: str) -> ResolvedImage:
            for reference in references[:-1]:
                try:
                    return images.resolve(reference, pull=False)
                except UnavailableError:
                    continue
            return images.resolve(references[-1], pull=False)

        reference = source.manifest.image
        if reference is None:
            base = here(*((settings.base_image,) if settings.base_image else BASE_IMAGES))
            reference = ImageBuilder(engine, images, network_mode=settings.build_network).reference(source, base)
            if reference != build.image:
                return _Image(reference=reference, image_id=reference)
        here(build.image_id)
        found = here(reference)
        return _Image(
            reference=reference,
            image_id=found.image_id,
            digest=found.repo_digest if source.manifest.image is not None else None,
        )
    finally:
        engine.close()

"""Removing what attempts left: containers, volumes and networks by label, folders by name."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import structlog
from docker.types import LogConfig, Ulimit

from crb_worker.sandbox.contract import ATTEMPT_LABEL, FARM_LABEL, WORKSPACE_LABEL
from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.engine_failures import EngineFailureError, engine_calls
from crb_worker.sandbox.folder import attempt_folders, remove_tree
from crb_worker.sandbox.mounts import bind_mount
from crb_worker.sandbox.pool_lock import POOL_LABEL, dead_pool_files, pool_is_live

__all__ = ["Janitor", "Leftovers", "Removal", "remove_container", "remove_volumes"]

_log = structlog.get_logger(__name__)
#: Seconds that removing one folder in a container may take.
_JANITOR_SECONDS = 120
#: Bytes; for rm in a tree that is as deep as an agent can make it.
_JANITOR_MEMORY = 256 * 1024 * 1024
#: Seconds that somebody else's removal of a container may take.
_VOLUME_SECONDS = 10


class Janitor:
    """Removes folders that hold files of other users, which a farm that is not root may not remove itself.

    A container does it, from the first of ``images`` that is here and holds ``rm``.
    """

    def __init__(self, engine: Engine, *images: str) -> None:
        self._engine = engine
        self._images = images

    def remove(self, path: Path, labels: dict[str, str], *more_images: str) -> bool:
        """Remove the folder ``path``. False if it is still there; what remains is left for the next reaping."""
        if remove_tree(path):
            return True
        for image in (*self._images, *more_images):
            # The folder may go meanwhile, by another reaper.
            with contextlib.suppress(EngineFailureError, FileNotFoundError):
                self._empty(path, image, labels)
            if remove_tree(path):
                return True
        _log.warning("attempt_folder_left", folder=str(path), remedy="remove it as root")
        return False

    def _empty(self, path: Path, image: str, labels: dict[str, str]) -> None:
        api = self._engine.api
        inside = sorted(f"/attempt/{entry.name}" for entry in path.iterdir())
        with engine_calls("removing an attempt's files"):
            config = api.create_host_config(
                mounts=[bind_mount("/attempt", path)],
                network_mode="none",
                cap_drop=["ALL"],
                cap_add=["DAC_OVERRIDE", "FOWNER"],
                security_opt=["no-new-privileges"],
                # The image may be the agent's own, and so may be its rm.
                read_only=True,
                mem_limit=_JANITOR_MEMORY,
                memswap_limit=_JANITOR_MEMORY,
                nano_cpus=1_000_000_000,
                pids_limit=16,
                oom_score_adj=500,
                ulimits=[Ulimit(name="fsize", soft=0, hard=0), Ulimit(name="core", soft=0, hard=0)],
                log_config=LogConfig(type="none"),
            )
            container = api.create_container(
                image,
                command=["-rf", "--", *inside],
                entrypoint=["rm"],
                user="0",
                host_config=config,
                labels=labels,
                healthcheck={"Test": ["NONE"]},
                use_config_proxy=False,
            )["Id"]
            try:
                api.start(container)
                api.wait(container, timeout=_JANITOR_SECONDS)
            finally:
                remove_container(self._engine, container)


class Removal(Enum):
    """What came of removing a container."""

    REMOVED = "removed"
    #: It was gone, or somebody else is removing it; its volumes may be left.
    BY_OTHERS = "by_others"
    LEFT = "left"


def remove_container(engine: Engine, container: str) -> Removal:
    """Kill and remove a container with its anonymous volumes; never waits for its process to agree."""
    try:
        with engine_calls("removing a container"):
            engine.api.remove_container(container, v=True, force=True)
    except EngineFailureError as error:
        if error.status in {404, 409}:
            return Removal.BY_OTHERS
        _log.warning("container_left", container=container, problem=error.problem)
        return Removal.LEFT
    return Removal.REMOVED


def remove_volumes(engine: Engine, attempt_id: str) -> None:
    """Remove an attempt's volumes where somebody else removes its container, once they are no longer in use."""
    until = time.monotonic() + _VOLUME_SECONDS
    while True:
        try:
            with engine_calls("removing volumes"):
                found = engine.api.volumes(filters={"label": f"{ATTEMPT_LABEL}={attempt_id}"})["Volumes"] or []
                for volume in found:
                    engine.api.remove_volume(volume["Name"])
                return
        except EngineFailureError as error:
            if error.status not in {404, 409} or time.monotonic() > until:
                _log.warning("volume_left", attempt=attempt_id, problem=error.problem)
                return
        time.sleep(0.1)


@dataclass
class Leftovers:
    """What attempts of one farm left, listed before it is asked which attempts are live."""

    engine: Engine
    farm: str
    workspaces: set[Path]
    _things: list[tuple[str, str, str, str]] = field(default_factory=list)
    _folders: list[tuple[str, Path]] = field(default_factory=list)
    #: (kind, id, name) of what belonged to a process that is gone.
    _pooled: list[tuple[str, str, str]] = field(default_factory=list)

    def find(self) -> None:
        """List them. EngineFailureError if the engine does not answer."""
        self._find_in_engine(self.engine)
        for workspace in sorted(self.workspaces):
            self._folders += attempt_folders(workspace, self.farm)

    def _find_in_engine(self, engine: Engine) -> None:
        ours = {"label": f"{FARM_LABEL}={self.farm}"}
        with engine_calls("listing what the farm left"):
            containers = engine.api.containers(all=True, filters=ours)
            volumes = engine.api.volumes(filters=ours)["Volumes"] or []
            networks = engine.api.networks(filters=ours)
        # Containers first: they hold volumes and networks in use.
        for kind, id_key, things in (
            ("container", "Id", containers),
            ("volume", "Name", volumes),
            ("network", "Id", networks),
        ):
            for thing in things:
                labels = thing.get("Labels") or {}
                workspace = labels.get(WORKSPACE_LABEL)
                # An image may bring any label; those of an attempt's container are ours.
                if POOL_LABEL in labels and ATTEMPT_LABEL not in labels:
                    if workspace is None or not pool_is_live(Path(workspace), labels[POOL_LABEL]):
                        self._pooled.append((kind, thing[id_key], str(thing.get("Name") or thing["Names"][0])))
                else:
                    self._things.append((kind, thing[id_key], thing[id_key][:12], labels.get(ATTEMPT_LABEL, "")))
                if workspace is not None:
                    self.workspaces.add(Path(workspace))

    def remove(self, live: Collection[str], janitor: Janitor) -> list[str]:
        """Remove what belongs to no live attempt; one line for each thing that is gone."""
        removed = [
            f"{kind} {shown} of attempt {attempt}"
            for kind, thing, shown, attempt in self._things
            if attempt not in live and _remove(self.engine, kind, thing)
        ]
        removed += [
            f"{kind} {name.removeprefix('/')} of a worker that is gone"
            for kind, thing, name in self._pooled
            if _remove(self.engine, kind, thing)
        ]
        for workspace in self.workspaces:
            for path in dead_pool_files(workspace):
                path.unlink(missing_ok=True)
            removed += self.engine.remove_dead_probes(workspace)
        for attempt, path in self._folders:
            if attempt in live:
                continue
            if janitor.remove(path, {FARM_LABEL: self.farm, ATTEMPT_LABEL: attempt}):
                removed.append(f"folder {path.name} of attempt {attempt}")
        return removed


def _remove(engine: Engine, kind: str, thing: str) -> bool:
    if kind == "container":
        return remove_container(engine, thing) is Removal.REMOVED
    try:
        with engine_calls(f"removing a {kind}"):
            if kind == "volume":
                engine.api.remove_volume(thing)
            else:
                engine.api.remove_network(thing)
    except EngineFailureError:
        # It went with its container, or is still in use and the next reaping has it.
        return False
    return True

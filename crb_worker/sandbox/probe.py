"""Tries what the engine can mount, without an image of anyone's, and leaves nothing."""

from __future__ import annotations

import contextlib
import io
import tarfile
from pathlib import Path

import docker

from crb_worker.sandbox.engine_failures import EngineFailureError, engine_calls
from crb_worker.sandbox.folder import remove_tree
from crb_worker.sandbox.mounts import bind_mount, overlay_mount
from crb_worker.sandbox.probe_folder import PROBE_LABEL, ProbeFolder, dead_probes

__all__ = ["can_mount", "remove_dead_probes"]

_PROBE_REPOSITORY = "crb/probe"


def can_mount(api: docker.APIClient, workspace: Path, *, overlay: bool) -> bool:
    """Whether the engine shows a container a folder of ``workspace``, as an overlay or as it is. EngineFailureError.

    It mounts a folder in a container that never starts, writes through the engine, and looks on the host. It needs no
    image of anyone: an empty one is imported.
    """
    try:
        folder = ProbeFolder(workspace)
    except OSError:
        return False
    lower, upper, layer = (folder.path / name for name in ("lower", "upper", "layer"))
    labels = {PROBE_LABEL: folder.id}
    image = f"{_PROBE_REPOSITORY}:{folder.id}"
    is_over = False
    try:
        for path in (lower, upper, layer):
            path.mkdir(mode=0o700)
        (lower / "old").write_text("old")
        mount = overlay_mount("/probe", lower, upper, layer, labels) if overlay else bind_mount("/probe", lower)
        with engine_calls("a probe"):
            api.import_image_from_data(_tar("marker", b""), repository=_PROBE_REPOSITORY, tag=folder.id)
            config = api.create_host_config(mounts=[mount], network_mode="none")
            container = api.create_container(image, ["none"], host_config=config, labels=labels)["Id"]
            api.put_archive(container, "/probe", _tar("new", b"new"))
            chunks, _ = api.get_archive(container, "/probe/old")
            found = b"".join(chunks)
        written, kept = (upper, lower) if overlay else (lower, upper)
        return b"old" in found and (written / "new").read_bytes() == b"new" and not (kept / "new").exists()
    except OSError:
        return False
    except EngineFailureError as error:
        if error.status is None:
            raise
        return False
    finally:
        with contextlib.suppress(EngineFailureError):
            _end_probe(api, folder.id)
            is_over = True
        folder.close(remove=is_over)


def _end_probe(api: docker.APIClient, probe: str) -> None:
    """Remove a probe's container, volume and image, as far as they are there. EngineFailureError."""
    ours = {"label": f"{PROBE_LABEL}={probe}"}
    with engine_calls("the end of a probe"):
        for container in api.containers(all=True, filters=ours):
            api.remove_container(container["Id"], v=True, force=True)
        for volume in api.volumes(filters=ours)["Volumes"] or []:
            api.remove_volume(volume["Name"])
        if api.images(f"{_PROBE_REPOSITORY}:{probe}"):
            api.remove_image(f"{_PROBE_REPOSITORY}:{probe}")


def remove_dead_probes(api: docker.APIClient, workspace: Path) -> list[str]:
    """Remove what probes of killed processes left; one line for each that is gone."""
    removed = []
    for probe, folder in dead_probes(workspace):
        with contextlib.suppress(EngineFailureError):
            _end_probe(api, probe)
            if remove_tree(folder):
                removed.append(f"probe {probe} of a process that is gone")
    return removed


def _tar(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()

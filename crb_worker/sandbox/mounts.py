"""What of this machine a container is shown."""

from __future__ import annotations

from pathlib import Path

from docker.types import DriverConfig, Mount

__all__ = ["bind_mount", "fits_overlay_options", "overlay_mount"]


def fits_overlay_options(path: Path) -> bool:
    """Whether the path can stand in the options of an overlay mount, which have no quoting that the engine keeps."""
    return not any(character in str(path) for character in ",:\\\"'") and str(path).isprintable()


def overlay_mount(target: str, lower: Path, upper: Path, layer: Path, labels: dict[str, str]) -> Mount:
    """An anonymous volume that shows ``lower`` and keeps what is written in ``upper``; removed with its container."""
    return Mount(
        target=target,
        source=None,
        type="volume",
        no_copy=True,
        labels=labels,
        driver_config=DriverConfig(
            "local",
            {
                "type": "overlay",
                "device": "overlay",
                "o": f"lowerdir={lower},upperdir={upper},workdir={layer}",
            },
        ),
    )


def bind_mount(target: str, source: Path, *, read_only: bool = False) -> Mount:
    """A folder or file of the host."""
    return Mount(target=target, source=str(source), type="bind", read_only=read_only)

"""What must not leave this machine with an export: its folders, secrets that it knows, where private images lie."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from crb_core.settings import Settings

if TYPE_CHECKING:
    from crb_core.agent import AgentBuild
    from crb_core.formats.archive_private import Private

__all__ = ["private_of"]

_NAMED = re.compile(r"(API_?KEY|TOKEN|SECRET|PASSWORD)", re.IGNORECASE)


def private_of(settings: Settings, builds: Iterable[AgentBuild]) -> Private:
    """The folders of this farm, secrets that builds declare or the environment names as such, and private images."""
    from crb_core.formats.archive_private import Private

    builds = list(builds)
    declared = {name for build in builds for name in build.secrets.env}
    secrets = {value for name, value in os.environ.items() if name in declared or _NAMED.search(name)}
    urls = (settings.store_url, settings.broker_url, settings.evidence_url)
    secrets |= {password for url in urls if url and (password := urlsplit(url).password)}
    if settings.secrets_folder is not None:
        for path in (each for build in builds for each in build.secrets.files):
            file = settings.secrets_folder / path.lstrip("/")
            if file.is_file():
                secrets.add(file.read_text(encoding="utf-8", errors="replace").strip())
    images = {
        name for build in builds if build.is_image_private for name in (build.image, build.image.partition("@")[0])
    }
    return Private.of_process(settings.home_folder, secrets, images)

"""Documents, tables, drawings and evidence of a site: scrubbed of what is private, named by their content."""

from __future__ import annotations

import asyncio
import io
import json
import re
import zipfile
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp

from crb_core.formats.archive_private import Private
from crb_web.json_text import json_bytes
from crb_web.renderer import Renderer
from crb_web.site.addresses import Target
from crb_web.site.folder import SiteFolder
from crb_web.site.in_process import Answer, ask

__all__ = ["Stored", "StoredFiles"]

_NO_ANSWER = "Not in this site: the server has no answer to it"
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Stored:
    """Where content is in the site, or why it is not there."""

    path: str | None
    reason: str = ""


class StoredFiles:
    """Writes each content once. ``missing`` and ``withheld`` name blobs that are not in the site."""

    def __init__(self, app: ASGIApp, folder: SiteFolder, private: Private, renderer: Renderer) -> None:
        self._app = app
        self._renderer = renderer
        self._folder = folder
        self._private = private
        self._known: dict[str, asyncio.Task[Stored]] = {}
        self.missing: set[str] = set()
        self.withheld: set[str] = set()

    async def stored(self, target: Target) -> Stored:
        """The file of a target that is no page."""
        found = self._known.get(target.address)
        if found is None:
            # Asked for by many pages at once, and once only.
            found = self._known[target.address] = asyncio.ensure_future(self._made(target))
        return await found

    async def _made(self, target: Target) -> Stored:
        if target.suffix == "png":
            return await self._picture(target)
        answer = await ask(self._app, target.address)
        return self._evidence(target, answer) if target.kind == "evidence" else self._data(target, answer)

    async def _picture(self, target: Target) -> Stored:
        """A PNG is drawn from the SVG as the site holds it, with nothing private left: pixels cannot be scrubbed."""
        answer = await ask(self._app, target.address.replace(".png?", ".svg?", 1))
        if answer.status != 200:
            return Stored(None, _NO_ANSWER)
        data = await run_in_threadpool(self._renderer.png, self._private.text(answer.body.decode("utf-8")))
        return Stored(self._folder.add_by_content("data", "png", data))

    def _data(self, target: Target, answer: Answer) -> Stored:
        if answer.status != 200:
            return Stored(None, _NO_ANSWER)
        if target.kind == "asset":
            return Stored(self._folder.add_by_content("assets", target.suffix, answer.body))
        data = answer.body
        if target.suffix == "xlsx":
            if self._is_in_workbook(data):
                return Stored(None, "Not in this site: it names folders of the exporting machine or holds a secret")
        elif target.suffix == "json":
            data = json_bytes(self._private.value(json.loads(data)))
        else:
            data = self._private.text(data.decode("utf-8")).encode("utf-8")
        return Stored(self._folder.add_by_content("data", target.suffix, data))

    def _evidence(self, target: Target, answer: Answer) -> Stored:
        name = _DIGEST.search(target.address)
        digest = name[0] if name else target.address
        if answer.status != 200:
            self.missing.add(digest)
            return Stored(None, "The blob is missing or damaged in the evidence store")
        if self._private.is_in(answer.body):
            self.withheld.add(digest)
            return Stored(None, "Withheld: the blob names folders of the exporting machine or holds a secret")
        # The server shows only text that no browser takes for anything else.
        suffix = "txt" if answer.headers.get("content-disposition") == "inline" else "bin"
        return Stored(self._folder.add_by_content("evidence", suffix, answer.body))

    def _is_in_workbook(self, data: bytes) -> bool:
        with zipfile.ZipFile(io.BytesIO(data)) as book:
            return any(self._private.is_in(book.read(name)) for name in book.namelist())

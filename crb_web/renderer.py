"""Vega-Lite to SVG, and SVG to PNG: in this process, or for an export in several, since each takes one at a time."""

from __future__ import annotations

import multiprocessing
import os
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["HERE", "SCALE", "Renderer", "rendering_processes"]

#: Pixels of a PNG for each of the SVG's.
SCALE = 2.0
#: Processes of an export at most; its pages are made by one that they have to keep up with.
MOST_PROCESSES = 4
#: Drawings that an export remembers: views differ in some pictures only.
KEPT_OF_EXPORT = 4096

_ID = re.compile(r'(?<=\bid=")(?:clip|gradient_)\d+(?=")|(?<=url\(#)(?:clip|gradient_)\d+(?=\))')


@dataclass(frozen=True)
class Renderer:
    """``svg`` draws a Vega-Lite specification in JSON, ``png`` an SVG document; the same input gives the same bytes."""

    svg: Callable[[str], str]
    png: Callable[[str], bytes]


def _svg(spec: str) -> str:
    # A second to import and to start; only pages with pictures need it.
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    # The renderer numbers clips and gradients on and on; from one drawing's view they begin at 1.
    known: dict[str, str] = {}
    return _ID.sub(lambda match: known.setdefault(match[0], f"part{len(known) + 1}"), drawn)


def _png(svg: str) -> bytes:
    import vl_convert

    drawn: bytes = vl_convert.svg_to_png(svg, scale=SCALE)
    return drawn


#: Draws in this process.
HERE = Renderer(lru_cache(maxsize=64)(_svg), _png)


@contextmanager
def rendering_processes() -> Iterator[Renderer]:
    """A renderer that draws as many at once as there are cores; each call waits for its own drawing."""
    count = min(MOST_PROCESSES, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
    # Started anew: a copy of a process with threads may hold a lock that nobody will ever give back.
    with ProcessPoolExecutor(max_workers=count, mp_context=multiprocessing.get_context("spawn")) as pool:
        begun = lru_cache(maxsize=KEPT_OF_EXPORT)(lambda spec: pool.submit(_svg, spec))
        lock = threading.Lock()

        def svg(spec: str) -> str:
            # A page asks for a drawing in both themes at once, which is one drawing.
            with lock:
                drawing = begun(spec)
            return drawing.result()

        def png(document: str) -> bytes:
            return pool.submit(_png, document).result()

        yield Renderer(svg, png)

"""Drawings of an export, which are made in processes of their own."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

from crb_web.renderer import HERE, rendering_processes

SPEC = '{"mark": "bar", "data": {"values": [{"a": 1}]}, "encoding": {"x": {"field": "a", "type": "quantitative"}}}'


def test_what_is_asked_for_often_at_once_is_drawn_once(monkeypatch):
    """A page wants a picture in both themes and as PNG, and its views share most; the bytes are the server's."""
    drawn = []
    submit = ProcessPoolExecutor.submit

    def counted(self, work, *arguments):
        drawn.append(arguments)
        return submit(self, work, *arguments)

    monkeypatch.setattr(ProcessPoolExecutor, "submit", counted)
    with rendering_processes() as renderer, ThreadPoolExecutor(4) as threads:
        found = set(threads.map(renderer.svg, [SPEC] * 8))
    assert (found, drawn) == ({HERE.svg(SPEC)}, [(SPEC,)])

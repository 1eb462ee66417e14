"""``make bench``: the figures that crb is held against, as JSON and as a table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.report import Figure, show

NAMES = ("scale", "overhead", "rescoring", "web", "web_filters")


def main() -> None:
    """Run all benchmarks, or those named on the command line, each in a process of its own."""
    chosen = sys.argv[1:] or list(NAMES)
    if unknown := set(chosen) - set(NAMES):
        raise SystemExit(f"There is no benchmark {', '.join(sorted(unknown))}; choose from {', '.join(NAMES)}.")
    if len(chosen) == 1:
        figures = _measure(chosen[0])
        show(figures, Path("bench-results") / f"{chosen[0]}.json")
        return
    figures = []
    for name in chosen:
        # Peak memory is a process's, so each benchmark gets one.
        subprocess.run([sys.executable, "-m", "benchmarks", name], check=True, stdout=sys.stderr)
        document = json.loads((Path("bench-results") / f"{name}.json").read_text())
        figures += [Figure(**figure) for figure in document["figures"]]
    show(figures, Path("bench-results") / "all.json")


def _measure(name: str) -> list[Figure]:
    if name == "scale":
        from benchmarks.scale import scale

        return scale()
    if name == "rescoring":
        from benchmarks.rescoring import rescoring

        return rescoring()
    if name == "web":
        from benchmarks.web import web

        return web()
    if name == "web_filters":
        from benchmarks.web_filters import web_filters

        return web_filters()
    from benchmarks.overhead import overhead

    return overhead()


if __name__ == "__main__":
    main()

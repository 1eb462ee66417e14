"""Where else a container writes: its own layer (``/tmp`` and the rest of its image) and volumes the image declares."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.engine_failures import EngineFailureError, engine_calls
from crb_worker.sandbox.nameless import device, nameless_bytes, process_tree
from crb_worker.sandbox.preparation import VIEW

__all__ = ["Layers"]

#: Seconds between two questions to the engine for the size of a layer that this process may not look into.
_INTERVAL = 5.0


class Layers:
    """The layer of one container: as folders where this process may look into them, else as the engine's figure."""

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self._container = container
        self._ask = False
        self._asked = 0.0
        self._bytes = 0
        self._first_process: int | None = None
        self._devices: set[int | None] = set()

    def folders(self) -> Iterable[Path] | None:
        """Folders of this machine that hold what the container writes outside the contract's mounts; None where the
        engine does not say."""
        try:
            facts = self._engine.inspect(self._container)
        except EngineFailureError:
            return None
        self._look_at_process(facts)
        layer = ((facts.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir")
        volumes = [
            mount.get("Source")
            for mount in facts.get("Mounts") or []
            if mount.get("Type") == "volume" and mount.get("Destination") != VIEW.repo
        ]
        found = [Path(path) for path in (layer, *volumes) if path and _is_open(Path(path))]
        self._devices |= {device(path) for path in found}
        self._ask = layer is None or Path(layer) not in found
        return found

    def _look_at_process(self, facts: dict[str, Any]) -> None:
        """Note the container's first process, if it is one of this machine, and the devices that it writes to."""
        pid = int(facts["State"].get("Pid") or 0)
        try:
            is_its_own = self._container in Path(f"/proc/{pid}/cgroup").read_text()
        except OSError:
            return
        if pid and is_its_own:
            self._first_process = pid
            sources = [mount.get("Source") for mount in facts.get("Mounts") or []]
            self._devices = {device(path) for path in (f"/proc/{pid}/root", *sources) if path} - {None}

    def unlisted_bytes(self) -> int:
        """What no folder lists: files without a name, and a layer that only the engine may measure."""
        nameless = 0
        if self._first_process is not None:
            nameless = nameless_bytes(process_tree(self._first_process), self._devices)
        return nameless + self._engine_bytes()

    def _engine_bytes(self) -> int:
        """What the engine measures, 0 where ``folders`` gave the layer itself."""
        if self._ask and time.monotonic() - self._asked > _INTERVAL:
            with contextlib.suppress(EngineFailureError), engine_calls("measuring a container"):
                listed = self._engine.api.containers(all=True, size=True, filters={"id": self._container})
                self._bytes = int(listed[0].get("SizeRw") or 0) if listed else 0
            self._asked = time.monotonic()
        return self._bytes


def _is_open(path: Path) -> bool:
    try:
        next(path.iterdir(), None)
    except OSError:
        return False
    return True

"""Whose CPU time went by while something was measured: a figure means little without what else the machine did."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import psutil

__all__ = ["CpuMeter", "CpuTime", "load"]

#: The engine's daemons. What runs for a moment under them (runtimes, containers) is counted with the rest.
_ENGINE = frozenset({"dockerd", "containerd", "containerd-shim-runc-v2", "docker-proxy"})


@dataclass(frozen=True, kw_only=True)
class CpuTime:
    """CPU seconds of an interval, all cores together.

    ``farm`` is by process, ``engine`` its daemons, ``others`` the processes that were there all the time and belong to
    neither. ``containers`` is what is left of ``busy``: runtimes, agents, the docker command, and whatever else came
    and went meanwhile.
    """

    seconds: float
    cores: int
    busy: float
    farm: Mapping[str, float]
    engine: float
    others: float

    @property
    def containers(self) -> float:
        return max(0.0, self.busy - sum(self.farm.values()) - self.engine - self.others)

    @property
    def busy_share(self) -> float:
        """Between 0 and 1."""
        return self.busy / (self.seconds * self.cores) if self.seconds > 0 else 0.0

    def __add__(self, other: CpuTime) -> CpuTime:
        return CpuTime(
            seconds=self.seconds + other.seconds,
            cores=self.cores,
            busy=self.busy + other.busy,
            farm={name: self.farm.get(name, 0.0) + other.farm.get(name, 0.0) for name in {**self.farm, **other.farm}},
            engine=self.engine + other.engine,
            others=self.others + other.others,
        )


class CpuMeter:
    """Reads the CPU time of this machine's processes twice; ``farm`` names the processes of the farm by pid."""

    def __init__(self, farm: Mapping[str, int]) -> None:
        self._farm = dict(farm)
        self._busy, self._uptime = _machine()
        self._by_process = _processes(self._farm.values())

    def read(self) -> CpuTime:
        """What was used since this meter was made."""
        busy, uptime = _machine()
        now = _processes(self._farm.values())
        used = {key: seconds - self._by_process[key] for key, seconds in now.items() if key in self._by_process}
        by_pid = {pid: seconds for (pid, _, _), seconds in used.items()}
        ours = set(self._farm.values())
        return CpuTime(
            seconds=uptime - self._uptime,
            cores=os.cpu_count() or 1,
            busy=busy - self._busy,
            farm={name: by_pid.get(pid, 0.0) for name, pid in self._farm.items()},
            engine=sum(seconds for (_, _, name), seconds in used.items() if name in _ENGINE),
            others=sum(seconds for (pid, _, name), seconds in used.items() if pid not in ours and name not in _ENGINE),
        )


def load() -> float:
    """The machine's run queue over the last minute."""
    return os.getloadavg()[0]


def _machine() -> tuple[float, float]:
    """(seconds that the cores were busy, seconds of a clock that does not step)."""
    times: Any = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # What guests use is in user already.
    whole = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return whole - idle, time.monotonic()


def _processes(with_children: Iterable[int]) -> dict[tuple[int, float, str], float]:
    """CPU seconds by pid, start and name. Of ``with_children`` also what children used that have ended."""
    ours = set(with_children)
    found = {}
    for process in psutil.process_iter(["name", "create_time", "cpu_times"]):
        facts = process.info
        times = facts["cpu_times"]
        if times is not None:
            seconds = times.user + times.system
            if process.pid in ours:
                seconds += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
            found[(process.pid, facts["create_time"], facts["name"])] = seconds
    return found

"""A benchmark's CPU time is booked on whom it belongs to."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.machine import CpuMeter

#: Waits for a line, uses a quarter of a second of CPU, says so, and stays until its input ends.
BUSY = """
import sys, time
input()
while time.process_time() < 0.25: pass
print(flush=True)
sys.stdin.read()
"""


def test_the_farms_processes_are_told_from_others() -> None:
    """One that is named is the farm's, and one that is not is another's."""
    processes = [
        subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)
    ]
    meter = CpuMeter({"named": processes[0].pid})
    for process in processes:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
    used = meter.read()
    for process in processes:
        process.communicate()
    assert used.farm["named"] > 0.1
    assert used.others > 0.1
    assert used.seconds > 0
    assert used.busy_share > 0


def test_intervals_add_up() -> None:
    """Sums by name; a share is of all their seconds and cores."""
    meter = CpuMeter({})
    first, second = meter.read(), meter.read()
    both = first + second
    assert both.busy == first.busy + second.busy
    assert both.seconds == first.seconds + second.seconds
    assert both.cores == first.cores
    assert dict(both.farm) == {}

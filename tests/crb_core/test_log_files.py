"""A log file that cannot be written is said once, in a sentence, and ends nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import resource, signal, structlog, sys
from pathlib import Path
from crb_core.logs import configure_logs
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
configure_logs("info", file=Path(sys.argv[1]), terminal=None)
for number in range(100):
    structlog.get_logger("test").info("an event", number=number)
print("done")
"""


def test_a_full_disk_under_the_log_is_said_once(tmp_path: Path) -> None:
    """No traceback a line, and the process goes on."""
    log = tmp_path / "crb.jsonl"
    ran = subprocess.run([sys.executable, "-c", SCRIPT, str(log)], capture_output=True, text=True, check=True)
    assert ran.stdout == "done\n"
    assert ran.stderr == f"crb: The log {log} cannot be written: File too large.\n"

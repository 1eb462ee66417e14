"""Opening the sandbox of a runner kind."""

from __future__ import annotations

from pathlib import Path

from crb_core.errors import UnavailableError
from crb_worker.sandbox.contract import Sandbox

__all__ = ["open_sandbox"]


def open_sandbox(runner: str, *, slots: int, workspace: Path) -> Sandbox:
    """The sandbox for ``docker`` or ``process``, checked; UnavailableError with a remedy where it cannot run."""
    sandbox: Sandbox
    if runner == "docker":
        from crb_worker.sandbox.docker import DockerSandbox

        sandbox = DockerSandbox(slots=slots, workspace=workspace)
    elif runner == "process":
        from crb_worker.sandbox.process import ProcessSandbox

        sandbox = ProcessSandbox(slots=slots, workspace=workspace)
    else:
        raise UnavailableError(
            f"A build with the runner {runner!r} cannot be run here", remedy="Imported reviews are only judged"
        )
    sandbox.check()
    return sandbox

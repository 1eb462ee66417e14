"""Opening the sandbox of a runner kind."""

from __future__ import annotations

from pathlib import Path

from crb_core.errors import UnavailableError
from crb_core.settings import Settings
from crb_worker.sandbox.contract import Sandbox

__all__ = ["open_sandbox"]


def open_sandbox(runner: str, *, slots: int, workspace: Path, settings: Settings | None = None) -> Sandbox:
    """The sandbox for ``docker`` or ``process``, checked; UnavailableError with a remedy where it cannot run.

    ``settings`` say how agents reach declared hosts; without them the defaults hold.
    """
    sandbox: Sandbox
    if runner == "docker":
        from crb_worker.sandbox.docker import DockerSandbox
        from crb_worker.sandbox.egress_options import EgressOptions

        egress = EgressOptions() if settings is None else EgressOptions.of(settings)
        sandbox = DockerSandbox(slots=slots, workspace=workspace, egress=egress)
    elif runner == "process":
        from crb_worker.sandbox.process import ProcessSandbox

        sandbox = ProcessSandbox(slots=slots, workspace=workspace)
    else:
        raise UnavailableError(
            f"A build with the runner {runner!r} cannot be run here", remedy="Imported reviews are only judged"
        )
    try:
        sandbox.check()
    except BaseException:
        sandbox.close()
        raise
    return sandbox

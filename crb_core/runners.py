"""What each runner gives an attempt and what it cannot: one list for ``crb doctor``, tables, pages and documents.

The contract suite (tests/crb_worker/sandbox/test_promises.py) tries every promise on every runner and holds the outcome
against this list, in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["NOT_ISOLATED", "RUNNERS", "Promise", "Runner"]

#: What the mark "not isolated" means, wherever it is shown.
NOT_ISOLATED = "ran as processes of this machine, without a container; `crb doctor` lists what that cannot give"


class Promise(StrEnum):
    """What an isolated runner promises beyond the contract that every runner keeps."""

    DECLARED_NETWORK = "no network but the declared hosts"
    OWN_FILES = "no files but its own"
    OWN_PROCESSES = "no processes but its own"
    CPU_LIMIT = "the CPU limit"
    MEMORY_LIMIT = "the memory limit, at every moment"
    PROCESS_LIMIT = "the limit on processes"
    READ_ONLY_PULL_REQUEST = "a diff and a pr.json that cannot be changed"
    NO_NEW_RIGHTS = "no rights from setuid programs"
    SECRET_FILES = "secrets as files"
    ANY_IMAGE = "other people's images"


@dataclass(frozen=True, kw_only=True)
class Runner:
    """A runner and, one plain sentence each, the promises that it lacks and what else its user has to know."""

    name: str
    lacks: Mapping[Promise, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def isolated(self) -> bool:
        """Whether the agent is kept from the host, the network and other attempts."""
        return not self.openings

    @property
    def openings(self) -> tuple[str, ...]:
        """The sentences that say how an agent reaches what is not its own."""
        walls = (Promise.DECLARED_NETWORK, Promise.OWN_FILES, Promise.OWN_PROCESSES)
        return tuple(self.lacks[promise] for promise in walls if promise in self.lacks)

    @property
    def limitations(self) -> tuple[str, ...]:
        """Every sentence, in the order in which they are shown."""
        return (*self.lacks.values(), *self.remarks)


RUNNERS: Mapping[str, Runner] = {
    runner.name: runner
    for runner in (
        Runner(
            name="docker",
            remarks=(
                "Without the image of docker/egress agents have no network, also where they declare hosts.",
                "Disk is measured twice a second: for a moment an agent can take more than its limit.",
                (
                    "A farm that is not root cannot measure nameless files or those of other users,"
                    " and needs an image with rm."
                ),
                "While they run, agents share what the kernel counts by user, such as inotify watchers, with the host.",
                "Engines before 23 let agents open sockets to the hypervisor, where the host is a virtual machine.",
            ),
        ),
        Runner(
            name="process",
            lacks={
                Promise.DECLARED_NETWORK: "Agents reach every network that this machine reaches, declared or not.",
                Promise.OWN_FILES: "Agents run as this user: they can read and change what this user can, other"
                " attempts and the farm's store included.",
                Promise.OWN_PROCESSES: "Agents see this user's other processes and their environment, the judge's API"
                " key included, and may end them.",
                Promise.CPU_LIMIT: "CPU limits are not enforced, so durations depend on what else runs.",
                Promise.MEMORY_LIMIT: "Memory is measured twice a second: for a moment an agent can take more.",
                Promise.PROCESS_LIMIT: "The number of processes is not limited.",
                Promise.READ_ONLY_PULL_REQUEST: "An agent can change its own copy of the diff and of pr.json.",
                Promise.NO_NEW_RIGHTS: "Setuid programs of this machine work for agents as for this user.",
                Promise.SECRET_FILES: "Secrets that are declared as files cannot be given.",
                Promise.ANY_IMAGE: "Only bundled agents run, no images.",
            },
            remarks=("Outside Linux, a process that leaves its session outlives its attempt.",),
        ),
    )
}

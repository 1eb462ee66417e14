"""``crb doctor``: what this machine has and lacks, and how to mend it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.padding import Padding
from rich.table import Table

from crb_cli.output import JsonFlag, console, plain, print_json
from crb_core.errors import CrbError, SettingsError
from crb_core.runners import RUNNERS
from crb_core.settings import Settings, load_settings

if TYPE_CHECKING:
    from crb_worker.sandbox.engine import Engine

__all__ = ["doctor"]

#: Less free space than this and a sweep of containers may fill the disk.
ENOUGH_DISK_GIB = 5
#: There where a virtual machine has sockets to its hypervisor.
_HYPERVISOR = Path("/dev/vsock")


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at. ``needed`` things missing make the exit status 1."""

    name: str
    ok: bool
    found: str
    remedy: str | None = None
    needed: bool = True


def doctor(as_json: JsonFlag = False) -> None:
    """Say what this machine has and lacks for local runs, and how to mend it."""
    settings = load_settings()
    looks: tuple[Callable[[Settings], list[Check]], ...] = (
        *(_python, _variables, _home, _store),
        *(_broker, _git, _engine, _agents),
    )
    checks: list[Check] = []
    for look in looks:
        try:
            checks += look(settings)
        except CrbError as error:
            checks.append(Check(name=look.__name__.strip("_"), ok=False, found=error.problem, remedy=error.remedy))
    if as_json:
        limitations = {name: runner.limitations for name, runner in RUNNERS.items()}
        print_json(
            {"format": "crb.doctor/1", "checks": [asdict(check) for check in checks], "limitations": limitations}
        )
    else:
        table = Table(box=None, pad_edge=False)
        for title in ("", "what", "found"):
            table.add_column(title)
        for check in checks:
            sign, style = ("ok", "green") if check.ok else ("lacks", "red") if check.needed else ("-", "yellow")
            text = check.found if check.ok or not check.remedy else f"{check.found}. {check.remedy}"
            table.add_row(f"[{style}]{sign}[/]", check.name, plain(text))
        console.print(table)
        for runner in RUNNERS.values():
            console.print(f"\nWhat the runner {runner.name} cannot give:")
            for sentence in runner.limitations:
                console.print(Padding(plain(f"- {sentence}"), (0, 0, 0, 2)))
    if any(check.needed and not check.ok for check in checks):
        raise typer.Exit(1)


def _python(_: Settings) -> list[Check]:
    return [
        Check(
            name="Python",
            ok=sys.version_info >= (3, 11),
            found=sys.version.split()[0],
            remedy="Install Python 3.11 or newer",
        ),
        Check(name="cores", ok=True, found=str(os.cpu_count())),
    ]


def _variables(_: Settings) -> list[Check]:
    """Variables that look like settings and are none, so that what they say is not heard."""
    known = {f"CRB_{name.upper()}" for name in Settings.model_fields}
    return [
        Check(
            name="settings",
            ok=False,
            found=f"{name} is no setting, so it does nothing",
            remedy=f"Is {meant[0]} meant?",
            needed=False,
        )
        for name in sorted(os.environ)
        if name.startswith("CRB_") and name not in known and (meant := get_close_matches(name, known, n=1, cutoff=0.85))
    ]


def _home(settings: Settings) -> list[Check]:
    from crb_cli.home import open_home

    home = open_home(settings)
    free = shutil.disk_usage(home).free / 2**30
    return [
        Check(name="CRB_HOME", ok=True, found=str(home)),
        Check(
            name="disk",
            ok=free >= ENOUGH_DISK_GIB,
            found=f"{free:.0f} GiB free",
            remedy=f"Free some, or move CRB_HOME; less than {ENOUGH_DISK_GIB} GiB is little for containers",
            needed=False,
        ),
    ]


def _store(settings: Settings) -> list[Check]:
    from crb_core.store import open_store
    from crb_core.store.schema import stored_revision

    store = open_store(settings.resolved_store_url)
    try:
        return [Check(name="store", ok=True, found=f"{store.url}, schema {stored_revision(store)}")]
    finally:
        store.close()


def _broker(settings: Settings) -> list[Check]:
    from crb_scheduler.broker import EmbeddedBroker
    from crb_worker.app import check_broker

    if settings.broker_url is not None:
        check_broker(settings.broker_url)
        return [Check(name="broker", ok=True, found="the one of CRB_BROKER_URL answers")]
    with EmbeddedBroker(settings.home_folder / "doctor-broker-folder") as broker:
        check_broker(broker.url)
    return [Check(name="broker", ok=True, found="embedded Valkey")]


def _git(_: Settings) -> list[Check]:
    import subprocess

    path = shutil.which("git")
    if path is None:
        return [Check(name="git", ok=False, found="none", remedy="Install git")]
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return [Check(name="git", ok=True, found=version)]


def _engine(settings: Settings) -> list[Check]:
    from crb_worker.sandbox.build import ImageBuilder
    from crb_worker.sandbox.docker import DockerSandbox
    from crb_worker.sandbox.engine import Engine
    from crb_worker.sandbox.images import Images

    needed = settings.runner == "docker"
    engine = Engine(1)
    try:
        engine.check()
    except CrbError as error:
        engine.close()
        return [Check(name="Docker engine", ok=False, found=error.problem, remedy=error.remedy, needed=needed)]
    checks = [Check(name="Docker engine", ok=True, found=str(engine.api.version()["Version"]))]
    if _HYPERVISOR.exists() and engine.leaves_hypervisor_open():
        checks.append(
            Check(
                name="hypervisor",
                ok=False,
                found="This machine is a virtual one, and containers may open sockets to its hypervisor",
                remedy="Use an engine of version 23 or newer before you run agents that you do not trust",
                needed=False,
            )
        )
    try:
        base = ImageBuilder(engine, Images(engine)).base_image(settings.base_image)
        checks.append(Check(name="base image", ok=True, found=f"{base.reference} {base.image_id[:19]}"))
    except CrbError as error:
        checks.append(Check(name="base image", ok=False, found=error.problem, remedy=error.remedy, needed=needed))
    try:
        checks.append(_egress(settings, engine))
    finally:
        engine.close()
    try:
        settings.workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        # What CRB_HOME lacks is said where it is looked at.
        return checks
    sandbox = DockerSandbox(slots=1, workspace=settings.workspace)
    try:
        sandbox.check()
        cheap = sandbox.has_overlay(settings.workspace)
        found = "overlay mounts: cheap checkouts" if cheap else "plain copies: each attempt copies its checkout"
        checks.append(Check(name="checkouts", ok=True, found=found))
    except CrbError as error:
        checks.append(Check(name="checkouts", ok=False, found=error.problem, remedy=error.remedy, needed=needed))
    finally:
        sandbox.close()
    return checks


def _egress(settings: Settings, engine: Engine) -> Check:
    """Whether agents in containers reach the hosts that they declare."""
    from crb_worker.sandbox.egress import Egress
    from crb_worker.sandbox.egress_options import EgressOptions, require_free_subnets, too_few_lanes
    from crb_worker.sandbox.engine_failures import EngineFailureError
    from crb_worker.sandbox.images import Images

    options = EgressOptions.of(settings)
    try:
        image_id = Egress(engine, Images(engine), options).image_id()
        networks = [] if options.network is None else engine.network_names(options.network)
    except EngineFailureError as error:
        return Check(name="egress", ok=False, found=error.problem, needed=False)
    if image_id is None:
        return Check(
            name="egress",
            ok=False,
            found=f"The image {options.image} is not here, so agents have no network, also where they declare hosts",
            remedy="`make egress-image` builds it; CRB_EGRESS_IMAGE names another",
            needed=False,
        )
    if options.network is not None and options.network not in networks:
        return Check(
            name="egress",
            ok=False,
            found=f"The engine has no network {options.network} (CRB_EGRESS_NETWORK)",
            remedy=f"`docker network create {options.network}`, or unset it and workers make their own",
            needed=False,
        )
    try:
        require_free_subnets(settings)
    except SettingsError as error:
        return Check(name="egress", ok=False, found=error.problem, remedy=error.remedy, needed=False)
    if problem := too_few_lanes(settings, settings.resolved_review_slots):
        return Check(name="egress", ok=False, found=problem, remedy="Name a larger subnet", needed=False)
    found = f"{options.image} {image_id[:19]}: agents reach what they declare, from {options.subnets}"
    return Check(name="egress", ok=True, found=found)


def _agents(_: Settings) -> list[Check]:
    from crb_core.agent_source import list_agents

    names = ", ".join(source.manifest.name for source in list_agents())
    return [Check(name="agents", ok=True, found=names)]

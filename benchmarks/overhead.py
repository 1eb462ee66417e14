"""(a) What the whole path costs beside the same containers by ``docker run``, and (b) the error of review_ms.

Both sides run in the same minutes, in turn, because these machines are noisy: only the ratio of a pair means anything.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from sqlalchemy import select

from benchmarks.machine import CpuMeter, CpuTime, load
from benchmarks.report import Figure
from crb_cli.builds import resolve_builds
from crb_cli.farm import LocalFarm
from crb_cli.judge_plans import plan_judges
from crb_cli.sweep import load_named_corpus
from crb_core.agent import AgentBuild
from crb_core.agent_source import load_agent
from crb_core.settings import load_settings
from crb_core.store.tables import AttemptRow, StepRow, StepState, core
from crb_scheduler.plan import SweepRequest, plan
from crb_scheduler.progress import read_progress

__all__ = ["overhead"]

TRIALS = 30
CONCURRENCY = 2
PAIRS = 5
attempts = core(AttemptRow)
steps = core(StepRow)


def overhead() -> list[Figure]:
    """At least three interleaved pairs after one warm-up of each side."""
    home = Path(tempfile.mkdtemp(prefix="crb-bench-"))
    settings = load_settings(home=home, runner="docker", review_slots=CONCURRENCY)
    corpus = load_named_corpus(settings, "showcase")
    keys = [entry.pull_request.key for entry in corpus.entries][: TRIALS // 3]
    build = resolve_builds([load_agent(Path(__file__).parent / "noop")], settings).builds[0]
    judges = plan_judges(corpus, ["offline"], [build])
    ratios, errors = [], []
    start_ms: list[float] = []
    whole_path: list[CpuTime] = []
    docker_run: list[CpuTime] = []
    load_before = load()
    print(f"the machine's load before: {load_before:.2f} on {os.cpu_count()} cores", flush=True)
    try:
        with LocalFarm(settings) as farm:
            for turn in range(PAIRS + 1):
                meter = CpuMeter({"scheduler": os.getpid(), **farm.process_ids()})
                began = time.monotonic()
                with farm.store.write() as connection:
                    planned = plan(
                        connection,
                        SweepRequest(
                            name=f"bench-{turn}",
                            corpus=corpus,
                            builds=[build],
                            judges=judges,
                            rounds=3,
                            snapshot_source={"kind": corpus.source, "template": corpus.source_template},
                            pull_requests=keys,
                        ),
                    )
                farm.nudge()
                while not _is_finished(farm, planned.sweep_id):
                    time.sleep(0.1)
                ours = time.monotonic() - began
                ours_cpu = meter.read()
                with farm.store.read() as connection:
                    progress = read_progress(connection, planned.sweep_id)
                if progress.by_state.get("scored") != TRIALS:
                    raise SystemExit(f"the benchmark's trials did not succeed: {progress.by_state}")
                meter = CpuMeter({})
                plain = _plain_docker(build, TRIALS)
                plain_cpu = meter.read()
                print(
                    f"pair {turn}: whole path {ours:.2f} s, docker run {plain:.2f} s, ratio {ours / plain:.3f}; "
                    f"load {load():.2f}",
                    flush=True,
                )
                print(f"  whole path: {_shown(ours_cpu)}\n  docker run: {_shown(plain_cpu)}", flush=True)
                # The first turn builds snapshots and warms both sides.
                if turn:
                    ratios.append(ours / plain)
                    whole_path.append(ours_cpu)
                    docker_run.append(plain_cpu)
            with farm.store.read() as connection:
                for row in connection.execute(select(attempts.c.review_ms, attempts.c.engine_ms, attempts.c.phases_ms)):
                    # The engine can note the end of a very short container before its start; it then has no time.
                    if row.engine_ms is not None:
                        errors.append(row.review_ms - row.engine_ms)
                    start_ms.append(row.phases_ms["create"] + row.phases_ms["start"])
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return [
        Figure(
            name="orchestration overhead",
            value=statistics.median(ratios),
            unit="ratio",
            goal="<= 1.15",
            note=f"whole path / docker run via xargs -P{CONCURRENCY}, {TRIALS} no-op trials, {len(ratios)} pairs, "
            f"{min(ratios):.2f} to {max(ratios):.2f}",
        ),
        Figure(
            name="review_ms minus engine's time, median",
            value=statistics.median(errors),
            unit="ms",
            note=f"{len(errors)} of {len(start_ms)} trials have both; "
            f"create and start alone take {statistics.median(start_ms):.0f} ms (median)",
        ),
        Figure(
            name="review_ms minus engine's time, p95",
            value=statistics.quantiles(errors, n=20)[-1],
            unit="ms",
        ),
        *_cpu_figures(whole_path, docker_run, load_before),
    ]


def _cpu_figures(whole_path: list[CpuTime], docker_run: list[CpuTime], load_before: float) -> list[Figure]:
    """What each side used of the machine, and what else ran there: without it a ratio cannot be read later."""
    ours, plain = sum(whole_path[1:], start=whole_path[0]), sum(docker_run[1:], start=docker_run[0])
    trials = TRIALS * len(whole_path)
    farm = sum(ours.farm.values())
    parts = ", ".join(f"{name} {seconds * 1000 / trials:.0f}" for name, seconds in ours.farm.items())
    return [
        Figure(name="CPU of the farm's processes a trial", value=farm * 1000 / trials, unit="ms", note=parts),
        Figure(
            name="CPU of engine and containers a trial",
            value=(ours.engine + ours.containers) * 1000 / trials,
            unit="ms",
            note=f"docker run: {(plain.engine + plain.containers) * 1000 / trials:.0f}, with the docker command itself",
        ),
        Figure(
            name="farm's share of its CPU and the engine's",
            value=farm / (farm + ours.engine + ours.containers),
            unit="share",
        ),
        Figure(
            name="CPU of other processes meanwhile",
            value=(ours.others + plain.others) / (ours.seconds + plain.seconds),
            unit="cores",
            note=f"load before {load_before:.2f}; of {ours.cores} cores {ours.busy_share:.0%} busy on the whole path, "
            f"{plain.busy_share:.0%} with docker run",
        ),
    ]


def _shown(used: CpuTime) -> str:
    parts = {**used.farm, "engine": used.engine, "containers and the rest": used.containers, "others": used.others}
    said = ", ".join(f"{name} {seconds:.2f}" for name, seconds in parts.items())
    return f"{used.busy:.2f} s of CPU, {used.busy_share:.0%} of {used.cores} cores ({said})"


def _is_finished(farm: LocalFarm, sweep_id: str) -> bool:
    """A cheap question: the two cores belong to what is measured."""
    farm.check()
    still_open = (
        select(steps.c.id)
        .where(
            steps.c.state.in_((StepState.READY.value, StepState.QUEUED.value, StepState.RUNNING.value)),
            steps.c.sweep_id == sweep_id,
        )
        .limit(1)
    )
    with farm.store.read() as connection:
        return connection.execute(still_open).first() is None


def _plain_docker(build: AgentBuild, count: int) -> float:
    """The same containers: image, limits, no network, a writable folder; nothing of crb."""
    docker = next(path for path in ("/usr/bin/docker", shutil.which("docker") or "") if Path(path).exists())
    environment = {
        "RB_NWO": "crb-showcase/ledger",
        "RB_PR_NUMBER": "1",
        "RB_BASE": "0" * 40,
        "RB_HEAD": "0" * 40,
        "RB_OUT": "/tmp/findings.json",
    }
    variables = " ".join(f"-e {name}={value}" for name, value in environment.items())
    command = (
        f"seq {count} | xargs -P{CONCURRENCY} -I@ {docker} run --rm --network none --memory 64m "
        f"--pids-limit 32 {variables} {build.image}"
    )
    began = time.monotonic()
    subprocess.run(["sh", "-c", command], check=True, stdout=subprocess.DEVNULL, env=os.environ)
    return time.monotonic() - began

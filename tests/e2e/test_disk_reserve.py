"""A farm on a small disk: reviews pause before it is full, the reason is shown, and there the sweep ends after all."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import select

from crb_core.store import open_store
from crb_core.store.sweep_limits import why_no_reviews
from crb_core.store.tables import AttemptRow, WorkerRow, core
from crb_scheduler.broker import EmbeddedBroker
from tests.chaos.disk import small_disk
from tests.e2e.farm import check_every_trial_is_whole, crb, start, wait_for

workers = core(WorkerRow)
attempts = core(AttemptRow)


def test_reviews_pause_and_go_on(tmp_path: Path) -> None:
    """No attempt begins, and none fails, while less than the reserve is free."""
    with small_disk(tmp_path / "disk", 256) as disk, EmbeddedBroker(tmp_path / "broker") as broker:
        home = disk.path / "home"
        ballast = disk.path / "ballast"
        ballast.write_bytes(bytes(128 * 1024 * 1024))
        environment = {
            "CRB_BROKER_URL": broker.url,
            "CRB_DISK_RESERVE": "160MiB",
            "CRB_RUNNER": "process",
            "CRB_BEAT_SECONDS": "0.5",
        }
        home.mkdir()
        processes = [start(name, home=home, log=home / "log", **environment) for name in ("scheduler", "worker")]
        try:
            store = open_store(f"sqlite:///{home / 'crb.sqlite'}")

            def why() -> str | None:
                with store.read() as connection:
                    return why_no_reviews(connection)

            reason = wait_for(why, 60)
            assert "disk" in reason
            assert "CRB_DISK_RESERVE" in reason
            with store.read() as connection:
                assert connection.execute(select(workers.c.slots)).scalar_one()["review"] == 0
            begun = crb(
                "sweep", "start", "--agent", "minimal", "--subset", "smoke", "--rounds", "1", home=home, **environment
            )
            assert begun.returncode == 0, begun.stdout + begun.stderr
            watched = crb("sweep", "watch", "showcase", "--once", home=home, **environment)
            assert "set CRB_DISK_RESERVE" in " ".join(watched.stdout.split())
            with store.read() as connection:
                assert connection.execute(select(attempts.c.id)).all() == []
            ballast.unlink()
            ended = crb("sweep", "watch", "showcase", home=home, **environment)
            assert ended.returncode == 0, ended.stdout + ended.stderr
            assert why() is None
            check_every_trial_is_whole(store)
            with store.read() as connection:
                assert set(connection.execute(select(attempts.c.outcome)).scalars()) == {"succeeded"}
            store.close()
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(30)

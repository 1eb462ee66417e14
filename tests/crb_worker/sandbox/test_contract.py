"""What every sandbox must do (facts A5, design.md "The container contract"): one suite, run against each."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from crb_core.agent import ConfigurationEntry, Outcome, Secrets
from crb_core.errors import InputError
from crb_core.finding import CandidateFinding
from crb_worker.sandbox.contract import AttemptResult
from crb_worker.sandbox.folder import AttemptFolder
from tests.crb_worker.sandbox.support import BASE, EMPTY_REVIEW, FLOOD, HEAD, Ground, tree, with_secrets


def review(findings: str) -> str:
    """A script that writes a review with these findings (JSON text in which the shell expands variables)."""
    return EMPTY_REVIEW.replace('"findings": []', f'"findings": {findings}')


def in_background(ground: Ground, script: str, **changes: Any) -> tuple[str, threading.Thread, list[AttemptResult]]:
    """Start an attempt in a thread; the list holds its result once the thread has ended."""
    request = ground.request(script, **changes)
    results: list[AttemptResult] = []
    thread = threading.Thread(target=lambda: results.append(ground.sandbox.run(request)))
    thread.start()
    return request.attempt_id, thread, results


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    """Until ``condition()`` holds."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "what the test waits for did not happen"
        time.sleep(0.05)


def agent_wrote(ground: Ground, text: str) -> bool:
    """Whether an agent wrote ``text`` into its file ``out/ready``."""
    return any(path.read_text().strip() == text for path in ground.workspace.glob("*/out/ready"))


class TestEnvironment:
    def test_gives_the_variables_of_the_contract(self, ground: Ground) -> None:
        """Every variable of the contract is there, configuration keys in upper case with underscores."""
        result = ground.run(
            "env; " + EMPTY_REVIEW,
            attempt_number=3,
            round=2,
            configuration=(ConfigurationEntry(key="reasoning-effort", value="very high"),),
            model_api_url="https://api.example.com/v1",
        )
        environment = dict(line.split("=", 1) for line in result.stdout.decode().splitlines() if "=" in line)
        repo = environment["RB_REPO"]
        folder = repo.removesuffix("/repo")
        expected = {
            "RB_NWO": "acme/tiny",
            "RB_PR_NUMBER": "7",
            "RB_BASE": BASE,
            "RB_HEAD": HEAD,
            "RB_AGENT": "shell",
            "RB_DIFF": f"{folder}/pr/diff.patch",
            "RB_PR_JSON": f"{folder}/pr/pr.json",
            "RB_OUT": f"{folder}/out/findings.json",
            "RB_ATTEMPT": "3",
            "RB_MODEL_BASE_URL": "https://api.example.com/v1",
            "RB_CONFIG_REASONING_EFFORT": "very high",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
        assert {name: environment.get(name) for name in expected} == expected
        assert "CRB_ROUND" not in environment
        assert result.outcome is Outcome.SUCCEEDED

    def test_tells_the_round_to_replay_agents_only(self, ground: Ground) -> None:
        """A reviewer cannot know the round; an agent that replays recordings must."""
        assert b"CRB_ROUND=3\n" in ground.run("env;" + EMPTY_REVIEW, round=3, kind="replay").stdout

    def test_hands_on_nothing_of_the_farms_environment(self, ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
        """The farm's own variables, which may be secrets, do not reach an agent."""
        monkeypatch.setenv("CRB_JUDGE_KEY", "farm-secret-1")
        monkeypatch.setenv("HTTPS_PROXY", "http://user:farm-secret-2@127.0.0.1:9")
        result = ground.run("env; " + EMPTY_REVIEW)
        assert b"farm-secret" not in result.stdout
        assert result.outcome is Outcome.SUCCEEDED

    def test_gives_declared_secrets_only(self, ground: Ground) -> None:
        """A declared secret arrives, an undeclared one does not."""
        values = {"API_KEY": "k-declared", "OTHER": "k-other"}
        result = ground.sandbox.run(with_secrets(ground, "env; " + EMPTY_REVIEW, Secrets(env=("API_KEY",)), values))
        assert b"API_KEY=k-declared\n" in result.stdout
        assert b"k-other" not in result.stdout

    @pytest.mark.parametrize(("name", "values"), [("MISSING", {}), ("NUL", {"NUL": "a\0b"})])
    def test_refuses_secrets_that_it_cannot_give(self, ground: Ground, name: str, values: dict[str, str]) -> None:
        """No value, or one that cannot be given: the farm's fault, said by name, and no agent runs without it."""
        result = ground.sandbox.run(with_secrets(ground, EMPTY_REVIEW, Secrets(env=(name,)), values))
        assert result.outcome is Outcome.ENGINE_ERROR
        assert name in result.detail


class TestFolders:
    def test_shows_checkout_and_pull_request(self, ground: Ground) -> None:
        """The checkout, the diff and pr.json are where the variables say."""
        result = ground.run('cat "$RB_REPO/src/app.py" "$RB_DIFF" "$RB_PR_JSON"; ' + EMPTY_REVIEW)
        assert result.stdout.decode() == ("print('one')\ndiff --git a/src/app.py b/src/app.py\n" + '{"pr_number": 7}\n')

    def test_never_changes_what_attempts_share(self, ground: Ground) -> None:
        """An agent that rewrites .git, the tree and pr spoils nothing for the next attempt."""
        calm = 'cat "$RB_REPO/src/app.py"; ls "$RB_REPO/.git/HEAD"; ' + EMPTY_REVIEW
        wild = (
            """
        cd "$RB_REPO"; rm -rf .git README.md; echo spoiled > src/app.py; mkdir new; chmod 0 src
        rm -f "$RB_DIFF"; echo spoiled > "$RB_PR_JSON"; rm -rf "$RB_REPO/../pr"
        """
            + EMPTY_REVIEW
        )
        request = ground.request(wild)
        before = tree(ground.repo), tree(ground.pr_files)
        assert ground.sandbox.run(request).outcome is Outcome.SUCCEEDED
        assert (tree(ground.repo), tree(ground.pr_files)) == before
        assert ground.run(calm).stdout.decode().startswith("print('one')\n")

    def test_gives_each_attempt_a_checkout_of_its_own(self, ground: Ground) -> None:
        """Two attempts at once do not see each other's changes."""
        script = (
            """
        ls "$RB_REPO"; touch "$RB_REPO/mark"; echo yes > "$RB_REPO/../out/ready"; sleep 1
        """
            + EMPTY_REVIEW
        )
        pairs = [in_background(ground, script) for _ in range(2)]
        for _, thread, _ in pairs:
            thread.join()
        results = [results[0] for _, _, results in pairs]
        assert [result.stdout for result in results] == [b"README.md\nsrc\n"] * 2
        assert [result.outcome for result in results] == [Outcome.SUCCEEDED] * 2

    def test_leaves_no_write_only_remains(self, ground: Ground) -> None:
        """Folders that nobody may enter, and very deep ones, are removed all the same (the fixture looks)."""
        script = """
        cd "$RB_REPO"; mkdir -p locked/inner; chmod 0 locked
        i=0; while [ $i -lt 400 ]; do mkdir d; cd d; i=$((i+1)); done
        """
        assert ground.run(script + EMPTY_REVIEW).outcome is Outcome.SUCCEEDED


class TestVerdict:
    def test_accepts_a_review(self, ground: Ground) -> None:
        """Paths become repository-relative, several lines stay one message, in_diff is computed and clamps nothing."""
        script = review(
            """[
            {"producer": "p", "file": "$RB_REPO/src/app.py", "start_line": 9, "end_line": 11, "message": "a\\nb"},
            {"producer": "p", "file": "./gone.py", "start_line": 99999, "end_line": 99999, "message": "m"}
            ], "usage": {"total_tokens": 12, "unknown": "x"}"""
        ).replace("a\\nb", "a\\\\nb")
        result = ground.run(script)
        assert result.detail == "The agent reported 2 findings."
        assert result.findings == (
            CandidateFinding(file="src/app.py", start_line=9, end_line=11, message="a\nb", producer="p", in_diff=True),
            CandidateFinding(
                file="gone.py", start_line=99999, end_line=99999, message="m", producer="p", in_diff=False
            ),
        )
        assert result.usage == {"total_tokens": 12}
        assert result.findings_bytes is not None
        assert json.loads(result.findings_bytes)["agent"] == "shell"

    def test_accepts_a_review_that_found_nothing(self, ground: Ground) -> None:
        """An empty array is a review."""
        result = ground.run(EMPTY_REVIEW)
        assert (result.outcome, result.findings, result.usage) == (Outcome.SUCCEEDED, (), None)
        assert result.detail == "The agent reviewed the pull request and found nothing."

    @pytest.mark.parametrize("code", [1, 3, 127, 255])
    def test_fails_an_agent_that_fails(self, ground: Ground, code: int) -> None:
        """Another exit code than 0 is a failure, whatever the file says; the file is kept as evidence."""
        result = ground.run(f"{EMPTY_REVIEW} exit {code}")
        assert (result.outcome, result.exit_code) == (Outcome.NONZERO_EXIT, code)
        assert f"exit code {code}" in result.detail
        assert result.findings_bytes is not None

    @pytest.mark.parametrize(
        ("script", "outcome", "said"),
        [
            ("true", Outcome.OUTPUT_MISSING, "no findings file"),
            ('echo "{" > "$RB_OUT"', Outcome.OUTPUT_INVALID, "JSON"),
            ('printf "\\377" > "$RB_OUT"', Outcome.OUTPUT_INVALID, "UTF-8"),
            (': > "$RB_OUT"', Outcome.OUTPUT_INVALID, "empty"),
            (EMPTY_REVIEW.replace("$RB_PR_NUMBER", "8"), Outcome.WRONG_PULL_REQUEST, "pr.pr_number is 8"),
            (EMPTY_REVIEW.replace("$RB_HEAD", "$RB_BASE"), Outcome.WRONG_PULL_REQUEST, "pr.head"),
            ('mkdir "$RB_OUT"', Outcome.OUTPUT_INVALID, "a folder"),
            ('ln -s "$RB_PR_JSON" "$RB_OUT"', Outcome.OUTPUT_INVALID, "a symbolic link"),
            ('ln -s /etc/passwd "$RB_OUT"', Outcome.OUTPUT_INVALID, "a symbolic link"),
            ('mkfifo "$RB_OUT"', Outcome.OUTPUT_INVALID, "a FIFO"),
            (EMPTY_REVIEW + 'ln "$RB_OUT" "$RB_OUT.2"', Outcome.OUTPUT_INVALID, "2 hard links"),
            ('head -c 2000000 /dev/zero > "$RB_OUT"', Outcome.OUTPUT_TOO_LARGE, "1048576 bytes"),
            ('dd if=/dev/zero of="$RB_OUT" bs=1 count=1 seek=60000000', Outcome.OUTPUT_TOO_LARGE, "1048576 bytes"),
        ],
    )
    def test_refuses_output_that_breaks_a_rule(self, ground: Ground, script: str, outcome: Outcome, said: str) -> None:
        """Each broken rule has its outcome, and the detail says which it was."""
        result = ground.run(script, findings_mib=1)
        assert (result.outcome, result.exit_code, result.findings) == (outcome, 0, ())
        assert said in result.detail


class TestEnding:
    def test_ends_at_the_deadline(self, ground: Ground) -> None:
        """Time is the farm's to keep, also for an agent that ignores signals, and what it wrote is evidence."""
        script = "trap '' TERM INT HUP; echo started; " + EMPTY_REVIEW + "while :; do sleep 0.1; done"
        result = ground.run(script, timeout_seconds=1)
        assert result.outcome is Outcome.TIMEOUT
        assert result.detail == "The agent was not done after 1 seconds."
        assert result.stdout == b"started\n"
        assert result.findings == ()
        assert result.review_ms is not None
        assert result.review_ms >= 1000

    @pytest.mark.parametrize(
        ("written", "usage"),
        [
            (review('[], "usage": {"total_tokens": 12, "cost_usd": 0.5}'), {"total_tokens": 12, "cost_usd": 0.5}),
            ("", None),
        ],
        ids=["written", "absent"],
    )
    def test_keeps_the_usage_that_was_written_before_the_deadline(
        self, ground: Ground, written: str, usage: dict[str, float] | None
    ) -> None:
        """A timed-out attempt has no findings, but what it said that it used was used; unsaid is None, never 0."""
        result = ground.run(f"{written} sleep 60", timeout_seconds=1)
        assert (result.outcome, result.findings, result.usage) == (Outcome.TIMEOUT, (), usage)

    def test_keeps_the_usage_of_an_agent_that_failed(self, ground: Ground) -> None:
        """Another exit code, or findings that break a rule, undo no charge."""
        script = review('[], "usage": {"cost_usd": 0.5}')
        failed = ground.run(f"{script} exit 3")
        assert (failed.outcome, failed.usage) == (Outcome.NONZERO_EXIT, {"cost_usd": 0.5})
        invalid = ground.run(review('[7], "usage": {"cost_usd": 0.5}'))
        assert (invalid.outcome, invalid.usage) == (Outcome.OUTPUT_INVALID, {"cost_usd": 0.5})

    @pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.LOST, Outcome.TIMEOUT])
    def test_stops_from_another_thread(self, ground: Ground, outcome: Outcome) -> None:
        """``stop`` ends a running attempt, and its run gives that outcome."""
        script = 'echo up > "$RB_REPO/../out/ready"; while :; do sleep 0.1; done'
        attempt_id, thread, results = in_background(ground, script)
        wait_for(lambda: agent_wrote(ground, "up"))
        assert ground.sandbox.stop(attempt_id, outcome)
        ground.sandbox.stop(attempt_id, Outcome.CANCELLED)
        thread.join(60)
        assert [result.outcome for result in results] == [outcome]
        assert not ground.sandbox.stop(attempt_id, outcome)

    def test_stops_whenever_the_stop_comes(self, ground: Ground) -> None:
        """A stop at any moment, also before the agent has started, decides the outcome."""
        for delay in (0.0, 0.02, 0.05, 0.1, 0.2):
            attempt_id, thread, results = in_background(ground, "sleep 60")
            time.sleep(delay)
            wait_for(lambda attempt_id=attempt_id: ground.sandbox.stop(attempt_id, Outcome.CANCELLED))
            thread.join(60)
            assert [result.outcome for result in results] == [Outcome.CANCELLED]

    def test_knows_no_other_attempts_and_outcomes(self, ground: Ground) -> None:
        """An attempt that does not run here cannot be stopped, and no attempt can be stopped as a success."""
        assert not ground.sandbox.stop("nobody", Outcome.CANCELLED)
        with pytest.raises(InputError):
            ground.sandbox.stop("nobody", Outcome.SUCCEEDED)

    def test_leaves_no_process_behind(self, ground: Ground) -> None:
        """Children that left the session end with the agent, and do not hold the attempt up."""
        mark = f"3{uuid.uuid4().int % 10**6:06d}"
        script = f"setsid sleep {mark} & (setsid sleep {mark} &) ; {EMPTY_REVIEW}"
        assert ground.run(script).outcome is Outcome.SUCCEEDED
        assert _processes(mark) == []

    def test_leaves_no_process_behind_at_the_deadline(self, ground: Ground) -> None:
        """The same when the farm ends the agent."""
        mark = f"3{uuid.uuid4().int % 10**6:06d}"
        script = f"(setsid sh -c 'sleep {mark}; true' &) ; sleep {mark}"
        assert ground.run(script, timeout_seconds=1).outcome is Outcome.TIMEOUT
        assert _processes(mark) == []

    def test_ends_a_memory_bomb(self, ground: Ground) -> None:
        """Memory beyond the limit is an outcome of its own."""
        result = ground.run("tail /dev/zero", memory_mib=64)
        assert result.outcome is Outcome.OUT_OF_MEMORY
        assert "64 MiB" in result.detail

    @pytest.mark.parametrize(
        ("place", "outcome"),
        [("$RB_REPO/../out", Outcome.OUTPUT_TOO_LARGE), ("$RB_REPO", Outcome.NONZERO_EXIT)],
    )
    def test_ends_a_disk_bomb(self, ground: Ground, place: str, outcome: Outcome) -> None:
        """Many files beyond the disk limit end the attempt, and the detail says so."""
        script = f'cd "{place}"; i=0; while :; do head -c 4000000 /dev/zero > bomb$i; i=$((i+1)); sleep 0.05; done'
        result = ground.run(script, disk_mib=16)
        assert result.outcome is outcome
        assert "16 MiB" in result.detail

    @pytest.mark.skipif(sys.platform != "linux", reason="other systems do not show the open files of a process")
    def test_ends_a_disk_bomb_without_names(self, ground: Ground) -> None:
        """Open files that were removed take space as well, although no folder lists them."""
        opened = "".join(
            f'exec {number}>"$RB_REPO/gone"; rm "$RB_REPO/gone"; head -c 6000000 /dev/zero >&{number}; '
            for number in range(3, 9)
        )
        result = ground.run(f"{opened} sleep 60", disk_mib=16, timeout_seconds=50)
        assert result.outcome is Outcome.NONZERO_EXIT
        assert "16 MiB to disk" in result.detail

    def test_ends_a_herd_of_empty_files(self, ground: Ground) -> None:
        """Files without content use up the host's inodes, so they count."""
        script = 'cd "$RB_REPO"; i=0; while :; do mkdir d$i; (cd d$i && touch $(seq 500)); i=$((i+1)); done'
        result = ground.run(script, disk_mib=16)
        assert (result.outcome, "16 MiB to disk" in result.detail) == (Outcome.NONZERO_EXIT, True)

    def test_ends_a_file_beyond_the_limit(self, ground: Ground) -> None:
        """One file cannot grow beyond the disk limit at all."""
        result = ground.run('exec head -c 64000000 /dev/zero > "$RB_REPO/big"', disk_mib=16)
        assert (result.outcome, result.exit_code != 0) == (Outcome.NONZERO_EXIT, True)


def _processes(mark: str) -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if mark in words and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


class TestRecord:
    def test_keeps_what_was_printed(self, ground: Ground) -> None:
        """Both streams, apart and whole."""
        result = ground.run("echo out; echo err >&2; printf last; " + EMPTY_REVIEW)
        assert (result.stdout, result.stderr) == (b"out\nlast", b"err\n")
        assert (result.stdout_truncated, result.stderr_truncated) == (False, False)

    def test_keeps_the_end_of_a_flood(self, ground: Ground) -> None:
        """Above the cap the beginning is lost, marked as such, and the outcome is not touched."""
        result = ground.run(
            FLOOD + "| head -c 9000000; echo; echo the end; " + EMPTY_REVIEW,
            log_mib=1,
        )
        assert result.outcome is Outcome.SUCCEEDED
        assert result.stdout_truncated
        assert not result.stderr_truncated
        assert len(result.stdout) == 1024 * 1024
        assert result.stdout.endswith(b"\nthe end\n")

    def test_measures_the_phases(self, ground: Ground) -> None:
        """review_ms is create, start and wait; the rest of an attempt is apart from it."""
        result = ground.run("sleep 0.3; " + EMPTY_REVIEW)
        assert result.review_ms is not None
        inside = sum(result.phases.get(name, 0.0) for name in ("create", "start", "wait"))
        assert result.review_ms >= 300
        assert result.review_ms == pytest.approx(inside, abs=250)
        assert {"prepare", "permit", "start", "wait", "collect", "teardown"} <= result.phases.keys()
        assert abs(result.started_at - datetime.now(UTC)) < timedelta(minutes=5)
        assert result.concurrent == 1
        assert result.image_id == ground.image_id
        assert result.host

    def test_runs_an_attempt_once(self, ground: Ground) -> None:
        """The same attempt cannot run twice at once in a process."""
        request = ground.request('echo up > "$RB_REPO/../out/ready"; sleep 60')
        thread = threading.Thread(target=ground.sandbox.run, args=(request,))
        thread.start()
        wait_for(lambda: agent_wrote(ground, "up"))
        with pytest.raises(InputError, match="already runs"):
            ground.sandbox.run(request)
        ground.sandbox.stop(request.attempt_id, Outcome.CANCELLED)
        thread.join(60)

    @pytest.mark.parametrize("name", ["", ".", "../up", "a/b", "-x", "a" * 101, "a b", "a\n"])
    def test_refuses_ids_that_could_lead_elsewhere(self, ground: Ground, name: str) -> None:
        """An attempt id names a folder and a container, so it is plain."""
        with pytest.raises(InputError, match="attempt id"):
            ground.request(EMPTY_REVIEW, attempt_id=name)

    def test_says_when_the_snapshot_is_not_whole(self, ground: Ground) -> None:
        """A missing diff is the farm's fault."""
        request = ground.request(EMPTY_REVIEW)
        (ground.pr_files / "diff.patch").unlink()
        result = ground.sandbox.run(request)
        assert result.outcome is Outcome.ENGINE_ERROR
        assert "diff.patch is missing" in result.detail

    def test_says_when_the_workspace_cannot_be_written(self, ground: Ground, tmp_path: Path) -> None:
        """A workspace that is a file: an outcome with a sentence, not a traceback."""
        (tmp_path / "file").write_text("")
        result = ground.run(EMPTY_REVIEW, workspace=tmp_path / "file")
        assert result.outcome is Outcome.ENGINE_ERROR
        assert result.detail

    def test_says_when_the_image_is_gone(self, ground: Ground) -> None:
        """An image or agent that is not the recorded one does not run."""
        result = ground.run(EMPTY_REVIEW, image_id="sha256:" + "0" * 64)
        assert result.outcome is Outcome.IMAGE_UNAVAILABLE
        assert result.review_ms is None


class TestReap:
    def test_removes_the_folders_of_dead_attempts_only(self, ground: Ground) -> None:
        """What a killed farm left is removed; live attempts and other farms' folders stay."""
        ground.run(EMPTY_REVIEW)
        request = ground.request(EMPTY_REVIEW)
        for name, farm in (("dead", ground.farm), ("live", ground.farm), ("other", "another farm")):
            folder = AttemptFolder(ground.request(EMPTY_REVIEW, attempt_id=name, farm=farm))
            folder.create()
            (folder.out / "locked").mkdir(mode=0)
        removed = ground.sandbox.reap(request.farm, lambda: {"live"})
        assert [line.endswith("of attempt dead") for line in removed] == [True]
        assert len(list(ground.workspace.iterdir())) == 2
        assert len(ground.sandbox.reap(request.farm, ())) == 1
        assert len(ground.sandbox.reap("another farm", ())) == 1

    def test_spares_what_runs_here(self, ground: Ground) -> None:
        """An attempt that runs in this process is live, whatever the caller knows."""
        attempt_id, thread, results = in_background(
            ground, 'echo up > "$RB_REPO/../out/ready"; sleep 1;' + EMPTY_REVIEW
        )
        wait_for(lambda: agent_wrote(ground, "up"))
        assert ground.sandbox.reap(ground.farm, ()) == []
        thread.join(60)
        assert [result.outcome for result in results] == [Outcome.SUCCEEDED]
        assert attempt_id
        assert os.path.isdir(ground.workspace)

"""``crb leaderboard`` and its sub-commands over a judged sweep in a store."""

from __future__ import annotations

import json
import re

import pytest
from sqlalchemy import select, update
from typer.testing import CliRunner

from benchmarks.filled_sweep import PRODUCERS, fill
from crb_cli.main import app
from crb_core.errors import InputError
from crb_core.metrics import score
from crb_core.store import open_store
from crb_core.store.results import find_judge, load_results
from crb_core.store.tables import AgentBuildRow, AttemptRow, ClassificationRow, CorpusRow, JudgmentRow, core
from crb_core.strata import Subset

BUILDS, PULL_REQUESTS, ROUNDS = 3, 6, 3
attempts, builds, judgments = core(AttemptRow), core(AgentBuildRow), core(JudgmentRow)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A CRB_HOME whose store holds one judged sweep of three builds, six pull requests and three rounds."""
    monkeypatch.setenv("CRB_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    fill(store, builds=BUILDS, pull_requests=PULL_REQUESTS, rounds=ROUNDS)
    store.close()
    return tmp_path


def change(home, statement):
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.write() as connection:
        connection.execute(statement)
    store.close()


def run(*arguments):
    result = CliRunner().invoke(app, ["leaderboard", *arguments], env={"COLUMNS": "80"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def read(*arguments):
    return json.loads(run(*arguments, "--json"))


def refused(*arguments):
    with pytest.raises(InputError) as caught:
        CliRunner().invoke(app, ["leaderboard", *arguments], catch_exceptions=False)
    return str(caught.value)


def board(*arguments):
    return read(*arguments)["leaderboards"][0]


def test_the_table_fits_and_shows_intervals_and_denominators(home):
    """80 columns: macro, interval and micro of every row, n of N trials, letters, uncalibrated, how it was made."""
    text = run()
    assert max(map(len, text.splitlines())) <= 80
    assert "uncalibrated" in text
    assert text.count("18/18 trials") == BUILDS
    assert len(re.findall(r"95%\s+(?:\.\d\d–(?:\.\d\d|1\.0)\s+){5}", text)) == BUILDS
    assert len(re.findall(r"agent-\d\s+macro .* [a-c]+\s*$", text, re.MULTILINE)) == BUILDS
    assert "seed" in text
    assert "Rows that share a letter cannot be told apart" in " ".join(text.split())


def test_strata_stand_beside_the_whole(home):
    """Seed A 7.3: by default, most severe first, what --json has for each stratum; --no-strata leaves them out."""
    text = run()
    strata = {(each["axis"], each["value"]): each["macro"] for each in board("--no-pull-requests")["rows"][0]["strata"]}
    lines = [line.split() for line in text.splitlines() if line.startswith("  ")]
    shown = {words[0]: words[1] for words in lines if len(words) == 1 + BUILDS and words[1].count("/") == 2}
    assert [name for name in shown if ("severity", name) in strata] == ["high", "medium", "low"]
    assert len(shown) == len(strata)
    for (_, value), macro in strata.items():
        means = [macro[f"grounded_{name}"]["mean"] for name in ("precision", "recall", "f")]
        expected = ["–" if mean is None else f"{mean:.2f}".replace("1.00", "1.0").removeprefix("0") for mean in means]
        assert shown[value].split("/") == expected
    assert "severity" not in run("--no-strata")


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"severity": ["high", "low"]},
        {"category": ["security"], "difficulty": ["easy", "hard"]},
        {"scope": ["pre-existing"]},
        {"context_required": ["diff-only"], "severity": ["medium"]},
        {"producer": [PRODUCERS[0]]},
        {"actionability": ["actionable"]},
    ],
)
def test_every_filter_equals_the_definition(home, chosen):
    """The numbers of ``--json`` are those of the pure definition on the stored records."""
    options = [
        part for axis, values in chosen.items() for value in values for part in (f"--{axis.replace('_', '-')}", value)
    ]
    document = board(*options, "--beta", "2", "--no-pull-requests")
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.read() as connection:
        results = load_results(connection, document["sweep_id"], find_judge(connection, document["sweep_id"], None))
    store.close()
    assert document["subset"] == {axis: sorted(values) for axis, values in chosen.items()}
    for row in document["rows"]:
        for number in (1, 2, 3):
            prs = [t.judged for t in results.trials if t.build_id == row["build"] and t.round == number]
            expected = score(prs, beta=2.0, subset=Subset.parse(**chosen))
            for level in ("macro", "micro"):
                for metric, found in row[level].items():
                    assert found["rounds"][number - 1] == getattr(getattr(expected, level).overall, metric)


def test_a_second_run_prints_the_same(home):
    """Intervals, p values and letters included."""
    assert run("--json") == run("--json")


def test_the_sweep_can_still_be_named(home):
    """``crb leaderboard SWEEP`` and ``crb leaderboard show SWEEP`` are the same; an unknown one is named."""
    assert board("bench", "--no-pull-requests") == board("show", "bench", "--no-pull-requests")
    assert "There is no sweep named nothing" in refused("nothing")


def test_sorting_by_augmented_recall_warns(home):
    """No table ranks by it (rule 11)."""
    document = board("--sort", "augmented_recall", "--no-pull-requests")
    assert [row["rank"] for row in document["rows"]] == [None] * BUILDS
    assert "denominator of its own" in document["warnings"][0]
    assert "have no ranks" in " ".join(run("--sort", "augmented_recall").split())


def test_an_incomplete_round_and_allow_partial(home):
    """n of N: named and left out, or averaged and unranked."""
    change(home, update(judgments).where(judgments.c.id == 1).values(scored_at=None))
    row = next(each for each in board("--no-pull-requests")["rows"] if each["rounds_left_out"])
    assert (row["scored"], row["planned"], row["rounds_left_out"]) == (12, 12, [1])
    assert row["rounds"][0]["problems"][0]["problem"] == "not finished yet"
    row = next(each for each in board("--allow-partial", "--no-pull-requests")["rows"] if not each["ranked"])
    assert (row["scored"], row["planned"], row["rank"], row["letters"]) == (17, 18, None, None)
    text = run("--allow-partial")
    assert "17/18 trials" in text
    assert "unranked: 1 of 18 trials have no score" in " ".join(text.split())


def test_leaving_out_a_producer(home):
    """Recorded with what it took; augmented metrics are null until a judge classifies the candidates (rule 8)."""
    document = board("--exclude-producer", "llm_", "--no-pull-requests")
    assert document["excluded_producers"]["prefixes"] == ["llm_"]
    assert document["rows"][0]["macro"]["augmented_precision"]["mean"] is None
    assert document["rows"][0]["row_sha256"] != board("--no-pull-requests")["rows"][0]["row_sha256"]
    assert "without" in run("--exclude-producer", "llm_")
    assert "blank producer prefix" in refused("--exclude-producer", " ")
    assert "begins with 'nobody'" in refused("--exclude-producer", "nobody")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--severity", "extreme"), "'extreme' is not a severity"),
        (("--scope", "extreme"), "'extreme' is not a value of scope"),
        (("--producer", "nobody"), "no golden finding is of the producer 'nobody'"),
        (("--beta", "0"), "beta is 0"),
        (("--sort", "beauty"), "beauty is no metric"),
        (("--judge", "nobody"), "no judgments of nobody"),
        (("--compatible",), "belongs to the protocol golden-comments"),
        (("compare", "agent-0", "agent-0"), "are the same build"),
        (("compare", "agent-0", "nobody"), "There is no agent nobody here"),
        (("compare", "agent-0"), "a comparison takes two to 4 builds, not 1"),
        (("distributions", "--pull-request", "nothing"), "has no pull request nothing"),
        (("usage", "--agent", "nobody"), "There is no agent nobody here"),
    ],
)
def test_what_is_not_there_is_refused(home, arguments, message):
    """A sentence with what there is instead of a table of nothing."""
    assert message in refused(*arguments)


def test_compare_two_agents(home):
    """Difference of the rows' means, its interval and p, macro and micro; tokens only if comparable."""
    document = read("compare", "agent-0", "agent-1")
    rows = {row["agent"]: row for row in board("--no-pull-requests")["rows"]}
    (pair,) = document["pairs"]
    for each in pair["comparisons"]:
        mine, theirs = (rows[name][each["level"]][each["metric"]]["mean"] for name in ("agent-0", "agent-1"))
        assert each["difference"] == pytest.approx(mine - theirs, abs=1e-9)
        assert each["low"] <= each["difference"] <= each["high"]
        assert 0 < each["p"] <= 1
        assert (each["pull_requests"], each["exact"]) == (PULL_REQUESTS, True)
    assert pair["tokens"]["comparable"] is False
    assert "which models" in pair["tokens"]["reason"]
    text = run("compare", "agent-0", "agent-1", "--severity", "high")
    assert max(map(len, text.splitlines())) <= 80


def test_builds_of_different_harnesses_are_not_compared(home):
    """Rule 13: what was measured by another contract or scoring is refused, with the field and both values."""
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.write() as connection:
        row = connection.execute(select(builds).where(builds.c.agent == "agent-1")).one()
        document = row.document | {"harness": "crb.contract/0"}
        connection.execute(update(builds).where(builds.c.id == row.id).values(document=document))
    store.close()
    assert "harness: 'crb.contract/1' and 'crb.contract/0'" in refused("compare", "agent-0", "agent-1")
    assert len(board("--no-pull-requests")["rows"]) == BUILDS


def test_distributions(home):
    """All scored trials, labelled as a mixture of pull requests, or those of one."""
    rows = read("distributions")["rows"]
    assert [row["mixes_pull_requests"] for row in rows] == [True] * BUILDS
    assert rows[0]["distributions"]["review_ms"]["measured"] == PULL_REQUESTS * ROUNDS
    assert rows[0]["distributions"]["cost_usd"]["reason"] == "only 0 of 18 scored trials measured it"
    single = read("distributions", "--pull-request", "pr-0", "--agent", "agent-1")["rows"]
    assert [(row["over"], row["scored"], row["mixes_pull_requests"]) for row in single] == [("pr-0", 3, False)]
    assert max(map(len, run("distributions").splitlines())) <= 80


def test_usage(home):
    """Totals with their coverage, and efficiency where every review measured it."""
    rows = read("usage")["rows"]
    assert rows[0]["usage"]["metrics"]["total_tokens"]["reported"] == PULL_REQUESTS * ROUNDS
    assert rows[0]["charges"]["total_usd"] is None
    assert rows[0]["efficiency"]["usd_per_finding"]["value"] is None
    assert rows[0]["efficiency"]["tokens_per_finding"]["value"] > 0
    assert max(map(len, run("usage").splitlines())) <= 80


def test_what_failed_attempts_used_is_said_and_never_in_a_review_s_figure(home):
    """Seed B, rule 15: usage of a timed-out attempt is counted apart; where it said nothing, that is said, not 0."""
    usage = {"total_tokens": 700, "cost_usd": 0.5}
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.write() as connection:
        row = dict(connection.execute(select(attempts).order_by(attempts.c.trial_id)).first()._mapping)
        trial = row["trial_id"]
        del row["id"]
        told = {"outcome": "timeout", "usage": usage, "evidence": {"findings": "a" * 64}}
        silent = {"outcome": "lost", "usage": None, "evidence": None}
        unable = {"outcome": "image_unavailable", "usage": None, "evidence": None}
        for number, changed in enumerate((told, silent, unable), 2):
            connection.execute(attempts.insert().values(**row | changed | {"number": number, "tag": f"t{number}"}))
    store.close()
    found = {each["agent"]: each for each in read("usage")["rows"]}["agent-0"]
    assert found["failed"] == {
        "attempts": 2,
        "silent": 1,
        "total_tokens": 700,
        "tokens_reported": 1,
        "total_usd": 0.5,
        "charged": 1,
        "without_evidence": 0,
        "evidence": ["a" * 64],
    }
    assert found["usage"]["metrics"]["total_tokens"]["reported"] == PULL_REQUESTS * ROUNDS
    assert found["charges"]["total_usd"] is None
    said = run("usage")
    assert re.search(r"2 failed attempts\s+700 \(1/2\)\s+0\.5000 \(1/2\)", said)
    assert max(map(len, said.splitlines())) <= 80
    charge = {each["agent"]: each["charge"] for each in board("--no-pull-requests")["rows"]}
    assert charge["agent-0"]["failed_attempts"] == {
        key: found["failed"][key] for key in found["failed"] if key != "evidence"
    }
    assert charge["agent-1"]["failed_attempts"]["attempts"] == 0
    shown = CliRunner().invoke(app, ["trial", "show", str(trial)], env={"COLUMNS": "80"}, catch_exceptions=False).output
    assert "usage: total_tokens 700, cost_usd 0.5; in no figure of a review" in shown
    assert "usage: none reported, so it is not known and not 0" in shown


def test_ablation(home):
    """One leave-one-out scoring a producer, with the mix; the whole stands beside it."""
    document = read("ablation")
    assert [record["producer"] for record in document["left_out"]] == sorted(PRODUCERS)
    assert sum(record["excluded"] for record in document["left_out"]) == document["mix"]["findings"]
    whole = {row["agent"]: row["grounded_f"] for row in document["whole"]}
    for record in document["left_out"]:
        for row in record["rows"]:
            assert row["change"] == pytest.approx(row["grounded_f"] - whole[row["agent"]])
    assert max(map(len, run("ablation").splitlines())) <= 80


def test_submit(home):
    """Refused without the word that the judge is not calibrated; never over a file; same input, same bytes."""
    first, second = home / "one.json", home / "two.json"
    assert "judge: not calibrated" in refused("submit", "bench", "--agent", "agent-0", "--out", str(first))
    assert not first.exists()
    for path in (first, second):
        run("submit", "bench", "--agent", "agent-0", "--out", str(path), "--uncalibrated")
    assert first.read_bytes() == second.read_bytes()
    document = json.loads(first.read_text())
    assert document["judge"]["calibrated"] is False
    assert [each["round"] for each in document["component_runs"]] == [1, 2, 3]
    assert len(document["component_runs"][0]["score"]["per_pull_request"]) == PULL_REQUESTS
    assert "already there" in refused("submit", "bench", "--agent", "agent-0", "--out", str(first), "--uncalibrated")
    change(home, update(judgments).where(judgments.c.id == 1).values(scored_at=None))
    incomplete = next(row["agent"] for row in board("--no-pull-requests")["rows"] if row["rounds_left_out"])
    reasons = refused("submit", "bench", "--agent", incomplete, "--out", str(home / "x"), "--uncalibrated")
    assert "rounds: 2 of 3 rounds are complete, 1 trials have no score" in reasons


def test_late_answer_keys_are_not_ranked(home):
    """Rule 14 at the command line: marked, and no rank."""
    change(home, update(attempts).where(attempts.c.trial_id == 1).values(started_at="2000-01-01T00:00:00.000Z"))
    row = next(each for each in board("--no-pull-requests")["rows"] if each["answer_key"] == "not older")
    assert (row["rank"], row["ranked"]) == (None, False)
    assert "unranked: the answer key is not older than 1 trial" in row["marks"]


def test_an_answer_key_sweep_is_scored_by_its_own_rules(home):
    """The protocol of the corpus decides the metrics of the table."""
    change(home, update(core(CorpusRow)).values(protocol="answer-key"))
    # Labels of candidates that match an intended trade-off would contradict this protocol.
    change(home, core(ClassificationRow).delete())
    document = board("--no-pull-requests")
    assert set(document["rows"][0]["macro"]) == {"precision", "recall", "f"}
    assert document["rows"][0]["macro"]["recall"]["mean"] is not None
    assert max(map(len, run().splitlines())) <= 80

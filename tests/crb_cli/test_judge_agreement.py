"""``crb judge agreement`` over label files."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from crb_cli.judge import app
from crb_core.errors import InputError


@pytest.fixture
def files(tmp_path):
    """Three raters of eight findings in four pull requests; the third is a JSON file and disagrees more."""
    findings = [(f"pr-{n % 4}", f"g-{n}") for n in range(8)]
    raters = {"anna": "ttffttft", "ben": "ttffttff", "cara": "tfftftff"}
    paths = []
    for name, text in raters.items():
        rows = [
            {"pull_request": pr, "finding": finding, "tp_fp": "tp" if letter == "t" else "fp"}
            for (pr, finding), letter in zip(findings, text, strict=True)
        ]
        path = tmp_path / f"{name}.{'json' if name == 'cara' else 'csv'}"
        if name == "cara":
            path.write_text(json.dumps({"format": "crb.labels/1", "rater": "Cara", "labels": rows}))
        else:
            lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
            path.write_text("\n".join(lines))
        paths.append(path)
    return paths


def run(*arguments):
    result = CliRunner().invoke(app, ["agreement", *map(str, arguments)], env={"COLUMNS": "80"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_pairs_and_all_together(files):
    """Kappa of every pair and alpha of the three, with intervals, on the axes that were answered."""
    document = json.loads(run(*files, "--json"))
    assert document["raters"] == {"anna": 8, "ben": 8, "Cara": 8}
    assert [axis["axis"] for axis in document["axes"]] == ["tp_fp"]
    pairs = document["axes"][0]["pairs"]
    assert [(pair["raters"], pair["agreement"]["raw"]) for pair in pairs] == [
        (["anna", "ben"], 0.875),
        (["anna", "Cara"], 0.5),
        (["ben", "Cara"], 0.625),
    ]
    # anna and ben: 7 of 8 agree, 5 x 4 + 3 x 4 of 64 by chance.
    assert pairs[0]["agreement"]["kappa"] == pytest.approx((7 / 8 - 0.5) / 0.5)
    assert document["axes"][0]["together"]["units"] == 8
    text = run(*files)
    assert max(map(len, text.splitlines())) <= 80
    assert "all (alpha)" in text
    assert "alpha" not in run(*files[:2])


def test_bad_input_is_one_sentence(files):
    """One file only, the same rater twice, a vocabulary of another protocol."""
    for arguments, message in (
        ((files[0],), "at least two raters"),
        ((files[0], files[0]), "rater anna is there twice"),
        ((*files, "--protocol", "none"), "there is no protocol 'none'"),
    ):
        with pytest.raises(InputError, match=message):
            run(*arguments)

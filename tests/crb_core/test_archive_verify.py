"""What verification finds: damage anywhere, forged numbers, and files that were made to harm."""

from __future__ import annotations

import io
import json
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crb_core.formats.archive_report import Verification
from crb_core.formats.archive_tar import MANIFEST, ArchiveWriter, open_archive
from crb_core.formats.archive_verify import verify_archive
from tests.crb_core.archived import bump, contents, edited, export, leaves, make_store, rewrite, spoil_and_verify


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("farm")
    make_store(home).close()
    out = tmp_path_factory.mktemp("out") / "sweep.tar"
    export(home, out)
    return out


def path_of(archive: Path, prefix: str, number: int = 0) -> str:
    return [name for name in contents(archive) if name.startswith(prefix)][number]


def problems(result: Verification) -> list[tuple[str, str]]:
    return [(each.file, each.problem) for each in result.differences]


# -- damage ------------------------------------------------------------------------------------------------------------


def test_any_changed_byte_is_found_and_its_file_named(archive: Path, tmp_path: Path) -> None:
    """A byte of a content names that file; one of a header or padding is found too."""
    data = archive.read_bytes()
    with open_archive(archive) as opened:
        members = dict(opened.members)
    draw = random.Random(20260105)
    places = [draw.randrange(len(data)) for _ in range(80)]
    # Every field of a header, its padding, the end of the archive.
    places += [0, 99, 100, 108, 116, 124, 136, 148, 156, 157, 257, 263, 265, 297, 329, 345, 511, len(data) - 1]
    damaged = tmp_path / "damaged.tar"
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 1 << draw.randrange(8)
        damaged.write_bytes(changed)
        result = verify_archive(damaged)
        assert not result.ok, place
        inside = [name for name, each in members.items() if each.offset <= place < each.offset + each.size]
        if inside and inside != [MANIFEST]:
            assert [each.file for each in result.differences] == inside, place
        elif inside:
            # A digest or size that was changed in the manifest makes the manifest itself unsound.
            assert result.differences[0].file == MANIFEST, place


def test_every_truncation_is_found(archive: Path, tmp_path: Path) -> None:
    """Cut off anywhere, or longer than written."""
    data = archive.read_bytes()
    cut = tmp_path / "cut.tar"
    draw = random.Random(7)
    for length in [
        0,
        1,
        511,
        512,
        513,
        len(data) - 1,
        len(data) - 512,
        *(draw.randrange(len(data)) for _ in range(20)),
    ]:
        cut.write_bytes(data[:length])
        assert not verify_archive(cut).ok, length
    for more in (b"\0", bytes(512), b"x" * 512, data):
        cut.write_bytes(data + more)
        assert problems(verify_archive(cut))[0][1].startswith("the archive goes on after its end")


# -- forged numbers ----------------------------------------------------------------------------------------------------


def test_every_forged_number_is_found(archive: Path, tmp_path: Path) -> None:
    """The smallest step of any number in results, metrics and claims is named with both values, digests made anew."""
    files = contents(archive)
    draw = random.Random(11)
    targets: list[tuple[str, int | None, tuple[Any, ...]]] = []
    for name, data in files.items():
        if name.startswith("results/"):
            targets += [(name, None, path) for path in leaves(json.loads(data))]
        elif name.startswith("judgments/"):
            for number, line in enumerate(data.splitlines(), start=1):
                value = json.loads(line)
                for part in ("claims", "metrics"):
                    targets += [(name, number, (part, *path)) for path in leaves(value[part])]
    assert len(targets) > 2000
    for name, line, path in draw.sample(targets, 40):
        forged = rewrite(
            archive, tmp_path / "forged.tar", {name: edited(files[name], line, lambda value, at=path: bump(value, at))}
        )
        result = verify_archive(forged)
        assert len(result.differences) == 1, (name, line, path)
        found = result.differences[0]
        assert (found.file, found.line) == (name, line)
        assert found.has_values
        assert str(path[-1]) in str(found.field)


Edit = Callable[[Any], None]


def _set(*path: Any, to: Any) -> Edit:
    def edit(value: Any) -> None:
        for part in path[:-1]:
            value = value[part]
        value[path[-1]] = to

    return edit


@pytest.mark.parametrize(
    ("prefix", "line", "edit", "expected"),
    [
        ("judgments/", 1, _set("matches", to=[]), "the stored value is not what the definitions give"),
        ("judgments/", 1, _set("classifications", 0, "label", "tp_fp", to="fp"), "the stored value"),
        ("judgments/", 1, _set("classifications", 0, "candidate", to=99), "there is no candidate finding 99"),
        ("judgments/", 1, _set("matches", 0, "golden", to=99), "there is no golden finding 99"),
        ("judgments/", 1, _set("matches", 0, "golden", to=-1), "the record is wrong"),
        ("judgments/", 1, _set("problem", to="it was not"), "the stored value is not what the definitions give"),
        ("judgments/", 1, _set("pull_request", to="pr-2"), "the judgment is of 'pr-2'"),
        ("judgments/", 1, _set("document", to={"dedup_groups": "x"}), "valid list"),
        ("judgments/", 1, _set("document", to={"golden_categories": {"x": "bug"}}), "'x' is no position"),
        ("judgments/", 1, _set("document", to={"recorded": [1]}), "the recorded evaluation is no object"),
        ("reviews/", 1, _set("trial_sha256", to="0" * 64), "the stored value is not what the definitions give"),
        ("reviews/", 1, _set("attempts", 0, "number", to=2), "the stored value is not what the definitions give"),
        ("reviews/", 1, _set("attempts", 0, "outcome", to="fine"), "'fine' is no outcome"),
        ("reviews/", 1, _set("attempts", 0, "outcome", to="timeout"), "there are findings, but no attempt succeeded"),
        ("reviews/", 1, _set("attempts", 0, "review_ms", to=1.5), "the stored value is not what the definitions give"),
        ("reviews/", 1, _set("candidates", 0, "finding", "message", to="x"), "not what the agent's own file says"),
        ("reviews/", 1, _set("pull_request", to="pr-9"), "is not in the corpus"),
        ("reviews/", 2, _set("pull_request", to="pr-1"), "is there twice or out of order"),
        ("reviews/", 1, _set("candidates", 0, "finding", "start_line", to="3"), "the record is wrong"),
        ("reviews/", 1, _set("more", to=1), "the record is wrong"),
        ("pull_requests", 1, _set("golden", 0, "finding", "label", "tp_fp", to="fp"), "it is not what it must be"),
        ("pull_requests", 1, _set("golden", 0, "finding_id", to="g-000000000000"), "it is not what it must be"),
        ("pull_requests", 1, _set("pull_request", "base", to="0" * 40), "it is not what it must be"),
        ("pull_requests", 2, _set("pull_request", "key", to="pr-1"), "the pull request pr-1 is there twice"),
        ("builds", 1, _set("build", "limits", "memory_mib", to=9999), "it is not what it must be"),
        ("builds", 1, _set("build", "agent", to="other"), "it is not what it must be"),
        ("judges", 1, _set("description", "threshold", to=0.4), "it is not what it must be"),
        ("sweep", None, _set("corpus_fingerprint", to="0" * 64), "it is not what it must be"),
        ("sweep", None, _set("protocol", to="answer-key"), "it is not what it must be"),
        ("sweep", None, _set("protocol", to="guessing"), "there is no protocol 'guessing'"),
        ("sweep", None, _set("aggregation", "beta", to=2.0), "it is not what it must be"),
        ("sweep", None, _set("judges", 0, "builds", to=["b-000000000000"]), "the sweep has no build b-000000000000"),
        ("sweep", None, _set("format", to="crb.archive/2"), "the record is wrong"),
        ("corpus", None, _set("fingerprint", to="0" * 64), "it is not what it must be"),
        ("evidence.jsonl", 1, _set("state", to="present"), "but the archive lacks it"),
        ("evidence.jsonl", 2, _set("state", to="missing"), "but the archive has it"),
        ("results/", None, _set("rows", to=[]), "the stored value is not what the definitions give"),
        ("results/", None, _set("rows", 0, "agent", to="other"), "the stored value is not what the definitions give"),
        ("results/", None, _set("rows", 0, "macro", to=None), "the stored value is not what the definitions give"),
    ],
)
def test_every_forged_part_is_found(
    archive: Path, tmp_path: Path, prefix: str, line: int | None, edit: Edit, expected: str
) -> None:
    """Whatever a number rests on cannot be changed without a difference, digests made anew or not."""
    name = path_of(archive, prefix)
    forged = rewrite(archive, tmp_path / "forged.tar", {name: edited(contents(archive)[name], line, edit)})
    result = verify_archive(forged)
    assert any(expected in each.problem for each in result.differences), problems(result)
    assert all(each.file for each in result.differences)


def test_differences_are_capped_but_counted(archive: Path, tmp_path: Path) -> None:
    """A thousand are listed, the rest is counted."""
    name = path_of(archive, "results/")

    def edit(value: Any) -> None:
        for path in leaves(value):
            bump(value, path)

    result = verify_archive(rewrite(archive, tmp_path / "x.tar", {name: edited(contents(archive)[name], None, edit)}))
    assert len(result.differences) == 1000
    assert result.unlisted == len(leaves(json.loads(contents(archive)[name]))) - 1000


# -- missing and extra parts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prefix", ["sweep", "corpus", "pull", "builds", "judges", "judgments", "results", "evidence.jsonl"]
)
def test_a_missing_part_is_named(archive: Path, tmp_path: Path, prefix: str) -> None:
    """Also where the manifest was made anew without it."""
    name = path_of(archive, prefix)
    result = verify_archive(rewrite(archive, tmp_path / "x.tar", {name: None}))
    assert (name, "the archive lacks this file. Export the sweep again") in problems(result)


def test_missing_reviews_and_blobs_are_found(archive: Path, tmp_path: Path) -> None:
    """A round without its reviews leaves judgments that nothing names; a blob that is listed must be there."""
    reviews = path_of(archive, "reviews/")
    result = verify_archive(rewrite(archive, tmp_path / "x.tar", {reviews: None}))
    assert any(problem == "nothing in the archive names this file" for _, problem in problems(result))
    blob = path_of(archive, "evidence/")
    result = verify_archive(rewrite(archive, tmp_path / "x.tar", {blob: None}))
    assert any("but the archive lacks it" in problem for _, problem in problems(result))


def test_an_extra_part_is_named(archive: Path, tmp_path: Path) -> None:
    """A file that nothing names, with or without an entry in the manifest."""
    for name in ("extra.txt", f"evidence/00/{'0' * 63}1", "reviews/b-000000000000/round-1.jsonl"):
        result = verify_archive(rewrite(archive, tmp_path / "x.tar", {}, {name: b"{}\n"}))
        assert problems(result) == [(name, "nothing in the archive names this file")]
    hidden = tmp_path / "hidden.tar"
    with hidden.open("wb") as stream:
        writer = ArchiveWriter(stream)
        for name, data in contents(archive).items():
            writer.add(name, data)
        writer.add("extra.txt", b"x")
        writer.files.pop("extra.txt")
        writer.finish()
    assert problems(verify_archive(hidden)) == [("extra.txt", "the archive holds this file, but the manifest does not")]


# -- hostile containers ------------------------------------------------------------------------------------------------


def tar(path: Path, *members: tuple[tarfile.TarInfo, bytes], kind: int = tarfile.USTAR_FORMAT) -> Path:
    with tarfile.open(path, "w", format=kind) as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def info(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", **more: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    for field, value in more.items():
        setattr(made, field, value)
    return made


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([(info("../../etc/x"), b"x")], "is no name that a file of an archive can have"),
        ([(info("/etc/x"), b"x")], "is no name that a file of an archive can have"),
        ([(info("a/../b"), b"x")], "is no name that a file of an archive can have"),
        ([(info("a//b"), b"x")], "is no name that a file of an archive can have"),
        ([(info("a\nb"), b"x")], "is no name that a file of an archive can have"),
        ([(info("x", tarfile.SYMTYPE, "/etc/passwd"), b"")], "'x' is a symbolic link"),
        ([(info("x", tarfile.LNKTYPE, "README.md"), b"")], "'x' is a hard link"),
        ([(info("x", tarfile.DIRTYPE), b"")], "'x/' is a folder"),
        ([(info("x", tarfile.CHRTYPE), b"")], "'x' is a device"),
        ([(info("x", tarfile.FIFOTYPE), b"")], "'x' is no regular file"),
        ([(info("x", mtime=5), b"x")], "the header of 'x' is not as crb writes it"),
        ([(info("x", mode=0o4755), b"x")], "the header of 'x' is not as crb writes it"),
        ([(info("x", uname="someone"), b"x")], "the header of 'x' is not as crb writes it"),
        ([(info("x"), b"x"), (info("x"), b"y")], "'x' is there twice"),
        ([(info("x"), b"x")], "the archive goes on after its end"),
    ],
)
def test_foreign_members_are_refused(tmp_path: Path, members: Any, expected: str) -> None:
    """Nothing that another program packed is taken, and nothing is ever written anywhere."""
    path = tar(tmp_path / "x.tar", *members)
    before = sorted(tmp_path.rglob("*"))
    result = verify_archive(path)
    assert len(result.differences) == 1
    assert expected in result.differences[0].problem
    assert sorted(tmp_path.rglob("*")) == before


def test_other_dialects_are_refused(tmp_path: Path) -> None:
    """GNU and pax headers can hide other names and sizes behind the visible ones."""
    for kind in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        path = tar(tmp_path / "x.tar", (info("a" * 150), b"x"), kind=kind)
        assert not verify_archive(path).ok


@pytest.mark.parametrize(
    "size", [b"77777777777\0", b"\x80" + b"\0" * 3 + b"\xff" * 8, b"-0000000001\0", b"           \0"]
)
def test_absurd_sizes_are_refused_before_anything_is_read(tmp_path: Path, size: bytes) -> None:
    """A size beyond the file, a binary one, a negative one and none at all."""
    header = bytearray(info("sweep.json").tobuf(format=tarfile.USTAR_FORMAT))
    header[124:136] = size
    header[148:156] = b"%06o\0 " % (256 + sum(header[:148]) + sum(header[156:]))
    path = tmp_path / "x.tar"
    path.write_bytes(bytes(header) + bytes(1024))
    problem = problems(verify_archive(path))[0][1]
    assert "says that it has" in problem or "cannot be read" in problem


def test_a_huge_sparse_file_is_refused_at_once(tmp_path: Path) -> None:
    """A terabyte of zeros is an archive that goes on after its end."""
    path = tmp_path / "x.tar"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    assert problems(verify_archive(path))[0][1].startswith("the archive goes on after its end")


@pytest.mark.parametrize(
    ("start", "kind"),
    [(b"\x1f\x8b\x08\0", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"PK\x03\x04", "zip"), (b"BZh9", "bzip2")],
)
def test_compressed_files_are_not_unpacked(tmp_path: Path, start: bytes, kind: str) -> None:
    """A compressed file may be a bomb: it is named as what it is, and left to the user."""
    path = tmp_path / "x.tar"
    path.write_bytes(start + bytes(600))
    assert problems(verify_archive(path)) == [(str(path), f"the file is compressed ({kind}). Decompress it first")]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A missing file, a folder, a FIFO without a writer, an empty file, plain text."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_text("hello " * 300)
    expected = {
        "absent": "the file does not exist",
        "": "this is a folder",
        "fifo": "this is no regular file",
        "empty": "the file is empty",
        "text": "this is no crb archive",
    }
    for name, problem in expected.items():
        result = verify_archive(tmp_path / name)
        assert problem in result.differences[0].problem


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "nested deeper"),
        (b'{"format": 1, "format": 2}', "the same key appears twice"),
        (b'{"format": NaN}', "NaN is not a JSON number"),
        (b'{"format": 1e999}', "the number is too large"),
        (b'{"format": "\xff"}', "not UTF-8"),
        (b"", "the file is empty"),
        (b"null", "the record is wrong"),
        (b'{"rounds": 1' + b"0" * 5000 + b"}", "the number is too large"),
    ],
)
@pytest.mark.parametrize("name", ["sweep.json", "pull_requests.jsonl"])
def test_hostile_json_gives_a_sentence(archive: Path, tmp_path: Path, name: str, data: bytes, expected: str) -> None:
    """Each problem is named with its file, whatever the digests say."""
    end = b"\n" if name.endswith("l") else b""
    result = verify_archive(rewrite(archive, tmp_path / "x.tar", {name: data + end}))
    assert result.differences[0].file == name
    assert expected in result.differences[0].problem


def test_a_line_without_end_is_named(archive: Path, tmp_path: Path) -> None:
    """The last line of JSON lines ends like the others."""
    data = contents(archive)["builds.jsonl"].rstrip(b"\n")
    result = verify_archive(rewrite(archive, tmp_path / "x.tar", {"builds.jsonl": data}))
    assert problems(result) == [("builds.jsonl", "the last line is cut off")]
    assert result.differences[0].line == 2


def test_absurd_times_end_in_no_traceback(archive: Path, tmp_path: Path) -> None:
    """Times whose sum is no number give differences like any other forged ones."""
    name = path_of(archive, "reviews/")
    lines = [json.loads(line) for line in contents(archive)[name].splitlines()]
    times = [attempt for line in lines for attempt in line["attempts"] if attempt["outcome"] == "succeeded"]
    assert len(times) > 1
    for attempt in times:
        attempt["review_ms"] = 1.7e308
    data = b"".join(json.dumps(line, separators=(",", ":"), sort_keys=True).encode() + b"\n" for line in lines)
    found = verify_archive(rewrite(archive, tmp_path / "x.tar", {name: data}))
    assert any("mean_ms" in str(each.field) for each in found.differences)


def test_no_forged_value_ends_in_a_traceback(archive: Path, tmp_path: Path) -> None:
    """Any value of any record replaced by anything else, digests made anew, gives differences or is no matter."""
    spoil_and_verify(archive, tmp_path / "x.tar", times=150, seed=3)

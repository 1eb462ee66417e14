"""A snapshot holds what base and head reach, and nothing else, whatever the source looks like."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import subprocess
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from crb_core.errors import CrbError, InputError, UnavailableError
from crb_core.formats.showcase import read_showcase
from crb_core.pull_request import PullRequest
from crb_worker.corpus_check import seal_corpus
from crb_worker.snapshot import (
    GitUrlSource,
    MirrorSource,
    ShowcaseSource,
    Snapshot,
    SnapshotCache,
    SnapshotSource,
    source_for,
)
from tests.crb_worker.text_corpora import KEY, git, write_corpus


class Upstream:
    """A repository with a fork point, later commits on both sides, refs, tags and a pull request."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.root = self.commit({"a.txt": "1\n2\n3\n", "b.txt": "b\n"}, "root")
        self.git("checkout", "--quiet", "-b", "topic")
        self.head = self.commit({"a.txt": "1\nTWO\n3\n", "new/c.sh": "echo\n"}, "the change")
        self.later = self.commit({"a.txt": "1\nTWO\n3\nfixed after review\n"}, "later")
        self.git("checkout", "--quiet", "main")
        self.base = self.commit({"b.txt": "moved on\n"}, "main moved on")
        self.newer_main = self.commit({"secret.txt": "never to be seen\n"}, "newer main")
        self.git("update-ref", "refs/pull/7/head", self.later)
        self.git("branch", "--quiet", "-D", "topic")
        self.git("tag", "v1")

    def git(self, *arguments: str) -> str:
        date = {"GIT_AUTHOR_DATE": "@1700000000 +0000", "GIT_COMMITTER_DATE": "@1700000000 +0000"}
        return git(self.folder, *arguments, **date)

    def commit(self, files: dict[str, str], message: str) -> str:
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode("utf-8", "surrogateescape"))
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", message)
        return self.git("rev-parse", "HEAD")

    def pull_request(self, **changes: Any) -> PullRequest:
        values = {
            "key": "acme_widget_7",
            "repo": "https://github.com/acme/widget",
            "number": 7,
            "base": self.base,
            "head": self.head,
            "title": "The change",
            "body": "Body\r\nwith é",
        }
        return PullRequest.model_validate(values | changes)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Upstream:
    return Upstream(tmp_path_factory.mktemp("pristine") / "repository")


@pytest.fixture
def upstream(pristine: Upstream, tmp_path: Path) -> Upstream:
    """A copy of its own for each test."""
    copied = copy(pristine)
    copied.folder = tmp_path / "mirrors" / "acme+widget"
    shutil.copytree(pristine.folder, copied.folder, symlinks=True)
    return copied


@pytest.fixture
def mirror(tmp_path: Path) -> MirrorSource:
    return MirrorSource(str(tmp_path / "mirrors" / "{owner}+{repo}"))


@pytest.fixture
def cache(tmp_path: Path) -> SnapshotCache:
    return SnapshotCache(tmp_path / "cache")


def assert_frozen(snapshot: Snapshot) -> None:
    """The repository holds the objects of base and head only, detached at head, with no way back."""
    repo, pull_request = snapshot.repo, snapshot.pull_request
    held = git(repo, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    wanted = git(repo, "rev-list", "--objects", "--no-object-names", pull_request.base, pull_request.head).split()
    assert sorted(held) == sorted(wanted)
    assert git(repo, "rev-parse", "HEAD") == pull_request.head
    assert git(repo, "for-each-ref") == ""
    assert git(repo, "remote") == ""
    assert git(repo, "status", "--porcelain", "--ignored") == ""
    assert git(repo, "fsck", "--full", "--no-dangling") == ""
    assert not [
        name
        for name in ("objects/info/alternates", "logs", "hooks", "FETCH_HEAD", "ORIG_HEAD", "packed-refs", "shallow")
        if (repo / ".git" / name).exists()
    ]
    for path in [repo, *repo.rglob("*")]:
        if not path.is_symlink():
            wanted_bits = 0o777 if path.is_dir() else 0o666
            assert path.stat().st_mode & wanted_bits == wanted_bits, path


class TestMirror:
    def test_only_base_and_head_are_reachable(
        self, upstream: Upstream, mirror: MirrorSource, cache: SnapshotCache
    ) -> None:
        snapshot = cache.get(mirror, upstream.pull_request())
        assert_frozen(snapshot)
        assert (snapshot.repo / "a.txt").read_text() == "1\nTWO\n3\n"
        assert snapshot.merge_base == upstream.root
        for commit in (upstream.later, upstream.newer_main):
            assert subprocess.run(["git", "cat-file", "-e", commit], cwd=snapshot.repo, check=False).returncode != 0
        assert snapshot.missing == ()

    def test_the_diff_is_three_dot(self, upstream: Upstream, mirror: MirrorSource, cache: SnapshotCache) -> None:
        """What main did meanwhile is not in it, and an agent's own git says the same."""
        snapshot = cache.get(mirror, upstream.pull_request())
        patch = (snapshot.pr_files / "diff.patch").read_text()
        assert sorted(snapshot.diff.files) == ["a.txt", "new/c.sh"]
        assert patch.strip() == git(snapshot.repo, "diff", "--full-index", f"{upstream.base}...{upstream.head}")
        assert snapshot.diff.in_diff("a.txt", 2, 2)

    def test_pr_json_is_the_contracts(self, upstream: Upstream, mirror: MirrorSource, cache: SnapshotCache) -> None:
        snapshot = cache.get(mirror, upstream.pull_request())
        assert json.loads((snapshot.pr_files / "pr.json").read_text(encoding="utf-8")) == {
            "repo": "https://github.com/acme/widget",
            "pr_number": 7,
            "base": upstream.base,
            "head": upstream.head,
            "nwo": "acme/widget",
            "title": "The change",
            "body": "Body\r\nwith é",
        }

    def test_a_bare_mirror_and_one_with_alternates(
        self, upstream: Upstream, cache: SnapshotCache, tmp_path: Path
    ) -> None:
        git(tmp_path, "clone", "--quiet", "--mirror", "--shared", str(upstream.folder), str(tmp_path / "bare.git"))
        assert_frozen(cache.get(MirrorSource(str(tmp_path / "bare.git")), upstream.pull_request()))

    def test_a_linked_work_tree(self, upstream: Upstream, cache: SnapshotCache, tmp_path: Path) -> None:
        upstream.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
        assert_frozen(cache.get(MirrorSource(str(tmp_path / "linked")), upstream.pull_request()))

    def test_the_mirrors_settings_and_hooks_decide_nothing(
        self, upstream: Upstream, mirror: MirrorSource, cache: SnapshotCache, tmp_path: Path
    ) -> None:
        """External diff, text conversion, filters, fsmonitor, replaced objects: none runs, none shows."""
        trap = f"touch {tmp_path}/ran; cat"
        attributes = "*.txt diff=trap filter=trap text eol=crlf ident\n*.sh -diff\n"
        upstream.git("checkout", "--quiet", upstream.head)
        head = upstream.commit({".gitattributes": attributes, "ident.txt": "$Id$\nx\n"}, "attributes")
        for name in ("diff.trap.command", "diff.trap.textconv", "filter.trap.smudge", "filter.trap.clean"):
            upstream.git("config", name, trap)
        upstream.git("config", "core.fsmonitor", trap)
        upstream.git("config", "diff.external", trap)
        upstream.git("replace", upstream.head, upstream.root)
        snapshot = cache.get(mirror, upstream.pull_request(head=head))
        assert_frozen(snapshot)
        assert not (tmp_path / "ran").exists()
        assert (snapshot.repo / "ident.txt").read_bytes() == b"$Id$\nx\n"
        assert "+echo" in (snapshot.pr_files / "diff.patch").read_text()

    def test_links_submodules_modes_and_odd_names(
        self, upstream: Upstream, mirror: MirrorSource, cache: SnapshotCache, tmp_path: Path
    ) -> None:
        """They are checked out as they are, and nothing outside is touched through a link."""
        outside = tmp_path / "outside"
        outside.write_text("x")
        outside.chmod(0o600)
        upstream.git("checkout", "--quiet", upstream.head)
        (upstream.folder / "link").symlink_to(outside)
        (upstream.folder / "folder-link").symlink_to(tmp_path)
        (upstream.folder / "new/c.sh").chmod(0o755)
        upstream.git("update-index", "--add", "--cacheinfo", f"160000,{upstream.root},sub")
        (upstream.folder / "sub").mkdir()
        head = upstream.commit({'q"\n\\é.txt': "x\n", "crlf.txt": "a\r\n", "-rf": "x\n"}, "odd")
        snapshot = cache.get(mirror, upstream.pull_request(head=head))
        assert outside.stat().st_mode & 0o777 == 0o600
        assert os.readlink(snapshot.repo / "link") == str(outside)
        assert (snapshot.repo / "sub").is_dir()
        assert (snapshot.repo / "new/c.sh").stat().st_mode & 0o777 == 0o777
        assert 'q"\n\\é.txt' in snapshot.diff.files
        assert (snapshot.repo / "crlf.txt").read_bytes() == b"a\r\n"
        assert git(snapshot.repo, "status", "--porcelain") == ""

    @pytest.mark.parametrize("field", ["base", "head"])
    def test_a_commit_that_the_mirror_lacks_is_named(
        self, upstream: Upstream, mirror: MirrorSource, cache: SnapshotCache, field: str
    ) -> None:
        with pytest.raises(
            UnavailableError, match=f"the {field} commit {'d' * 40} of acme_widget_7 is not in the mirror"
        ):
            cache.get(mirror, upstream.pull_request(**{field: "d" * 40}))
        assert [path.name for path in cache.root.iterdir()] == [".locks"]

    def test_an_id_of_another_kind_is_named(
        self, upstream: Upstream, mirror: MirrorSource, cache: SnapshotCache
    ) -> None:
        tree = upstream.git("rev-parse", f"{upstream.head}^{{tree}}")
        with pytest.raises(UnavailableError, match="is a tree, not a commit"):
            cache.get(mirror, upstream.pull_request(head=tree))

    def test_a_missing_mirror_is_named(self, upstream: Upstream, cache: SnapshotCache, tmp_path: Path) -> None:
        with pytest.raises(UnavailableError, match="no local mirror of acme/widget"):
            cache.get(MirrorSource(str(tmp_path / "nowhere" / "{repo}")), upstream.pull_request())

    def test_an_unknown_placeholder_is_named(self, upstream: Upstream, cache: SnapshotCache) -> None:
        with pytest.raises(InputError, match=r"holds \{owner\.__class__\}"):
            cache.get(MirrorSource("/m/{owner.__class__}"), upstream.pull_request())

    def test_commits_without_common_history_are_named(
        self, upstream: Upstream, mirror: MirrorSource, cache: SnapshotCache
    ) -> None:
        upstream.git("checkout", "--quiet", "--orphan", "island")
        island = upstream.commit({"i.txt": "i\n"}, "island")
        with pytest.raises(InputError, match="no common history"):
            cache.get(mirror, upstream.pull_request(head=island))

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            (["--filter=blob:none"], "partial clone"),
            (["--filter=tree:0"], "lacks a part of its history"),
            (["--depth=1", "--no-single-branch"], "not in the mirror|shallow|lacks a part"),
        ],
    )
    def test_incomplete_mirrors_are_refused(
        self, upstream: Upstream, cache: SnapshotCache, tmp_path: Path, options: list[str], problem: str
    ) -> None:
        upstream.git("config", "uploadpack.allowFilter", "true")
        upstream.git("branch", "topic", upstream.head)
        upstream.git("branch", "old", upstream.base)
        target = tmp_path / "partial"
        git(tmp_path, "clone", "--quiet", "--bare", *options, upstream.folder.as_uri(), str(target))
        with pytest.raises(UnavailableError, match=problem):
            cache.get(MirrorSource(str(target)), upstream.pull_request())

    def test_a_few_absent_big_files_outside_the_change_are_named_not_fatal(
        self, upstream: Upstream, mirror: MirrorSource, cache: SnapshotCache
    ) -> None:
        """As in mirrors made with a size limit; the checkout lacks the file and says so."""
        upstream.git("checkout", "--quiet", "main")
        base = upstream.commit(
            {f"many/{number}.txt": f"{number}\n" for number in range(200)} | {"big.bin": "0" * 9}, "m"
        )
        head = upstream.commit({"a.txt": "changed\n"}, "change")
        blob = upstream.git("rev-parse", f"{base}:big.bin")
        (upstream.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        snapshot = cache.get(mirror, upstream.pull_request(base=base, head=head))
        assert snapshot.missing == ("big.bin",)
        assert not (snapshot.repo / "big.bin").exists()
        assert git(snapshot.repo, "status", "--porcelain") == ""
        changed = upstream.git("rev-parse", f"{head}:a.txt")
        (upstream.folder / ".git" / "objects" / changed[:2] / changed[2:]).unlink()
        with pytest.raises(UnavailableError, match="a file that the pull request changes is absent"):
            cache.get(mirror, upstream.pull_request(base=base, head=head, title="Again"))


class TestGitUrl:
    def test_commits_are_fetched_by_id(self, upstream: Upstream, cache: SnapshotCache) -> None:
        source = GitUrlSource(upstream.folder.parent.as_uri() + "/{owner}+{repo}")
        assert_frozen(cache.get(source, upstream.pull_request()))

    def test_a_server_that_refuses_ids_is_asked_for_refs(
        self, upstream: Upstream, cache: SnapshotCache, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The head is then found under the pull request's ref, the base among the branches."""
        from crb_worker import git as module

        monkeypatch.setitem(module._SETTINGS, "protocol.version", "0")
        assert_frozen(cache.get(GitUrlSource(upstream.folder.as_uri()), upstream.pull_request()))

    def test_a_url_that_does_not_answer_is_named_without_its_password(
        self, upstream: Upstream, cache: SnapshotCache, tmp_path: Path
    ) -> None:
        with pytest.raises(UnavailableError) as caught:
            cache.get(GitUrlSource("https://user:hunter2@localhost:1/{repo}.git"), upstream.pull_request())
        assert "cannot be fetched from https://localhost:1/widget.git" in str(caught.value)
        assert "hunter2" not in str(caught.value)
        with pytest.raises(UnavailableError, match="cannot be fetched"):
            cache.get(GitUrlSource((tmp_path / "nowhere").as_uri()), upstream.pull_request())

    @pytest.mark.parametrize("url", ["ext::sh -c touch% /tmp/x", "--upload-pack=touch", "/plain/path", "host:path"])
    def test_other_kinds_of_address_are_refused(self, upstream: Upstream, cache: SnapshotCache, url: str) -> None:
        with pytest.raises(InputError, match="is no git URL"):
            cache.get(GitUrlSource(url), upstream.pull_request())


class TestText:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = write_corpus(tmp_path / "corpus")
        seal_corpus(folder)
        return folder

    def test_the_text_becomes_a_repository(self, folder: Path, cache: SnapshotCache) -> None:
        pull_request = read_showcase(folder).entries[0].pull_request
        snapshot = cache.get(ShowcaseSource(folder), pull_request)
        assert_frozen(snapshot)
        assert snapshot.merge_base == pull_request.base
        assert (snapshot.repo / "data/crlf.txt").read_bytes() == b"one\r\ntwo\r\n"
        assert git(snapshot.repo, "log", "--format=%an %aI %s").splitlines() == [
            "crb showcase 2026-01-02T00:00:00+00:00 Bigger widgets",
            "crb showcase 2026-01-01T00:00:00+00:00 Before: Bigger widgets",
        ]

    def test_text_that_changed_after_the_import_is_refused(self, folder: Path, cache: SnapshotCache) -> None:
        pull_request = read_showcase(folder).entries[0].pull_request
        (folder / "pull_requests" / KEY / "base" / "README.md").write_text("changed\n")
        with pytest.raises(InputError, match="the commit id is"):
            cache.get(ShowcaseSource(folder), pull_request)
        seal_corpus(folder)
        with pytest.raises(InputError, match="has changed since"):
            cache.get(ShowcaseSource(folder), pull_request)


class CountingSource:
    """The mirror, and how often it was asked."""

    def __init__(self, source: SnapshotSource) -> None:
        self.source = source
        self.asked = 0

    def deposit(self, git: Any, pull_request: PullRequest) -> None:
        self.asked += 1
        self.source.deposit(git, pull_request)


def build_in_child(arguments: tuple[str, str, PullRequest]) -> tuple[str, str]:
    root, template, pull_request = arguments
    snapshot = SnapshotCache(Path(root)).get(MirrorSource(template), pull_request)
    return str(snapshot.folder), (snapshot.repo / "a.txt").read_text()


class TestCache:
    def test_a_snapshot_is_built_once(self, upstream: Upstream, mirror: MirrorSource, cache: SnapshotCache) -> None:
        source = CountingSource(mirror)
        first = cache.get(source, upstream.pull_request())
        shutil.rmtree(upstream.folder)
        again = SnapshotCache(cache.root).get(source, upstream.pull_request())
        assert (again, source.asked) == (first, 1)

    def test_everything_that_is_shown_decides_what_is_cached(
        self, upstream: Upstream, mirror: MirrorSource, cache: SnapshotCache
    ) -> None:
        changes = ({}, {"title": "Another"}, {"body": ""}, {"base": upstream.root}, {"head": upstream.later})
        assert len({cache.get(mirror, upstream.pull_request(**change)).folder for change in changes}) == 5

    @pytest.mark.parametrize(
        "damage",
        [
            lambda folder: (folder / "repo" / ".git" / "HEAD").write_text("ref: refs/heads/main\n"),
            lambda folder: (folder / "snapshot.json").unlink(),
            lambda folder: (folder / "snapshot.json").write_text("[]"),
            lambda folder: (folder / "snapshot.json").write_text("{"),
            lambda folder: (folder / "repo" / "a.txt").unlink(),
            lambda folder: (folder / "repo" / "a.txt").write_text("other\n"),
            lambda folder: (folder / "repo" / "extra").write_text("x"),
            lambda folder: (folder / "repo" / ".git" / "refs" / "heads").joinpath("x").write_text("x"),
            lambda folder: (folder / "pr" / "diff.patch").write_text(""),
            lambda folder: (folder / "pr" / "pr.json").unlink(),
            lambda folder: shutil.rmtree(folder / "repo" / ".git" / "objects"),
            lambda folder: shutil.rmtree(folder / "repo"),
            lambda folder: (folder / "repo" / "a.txt").chmod(0),
            lambda folder: (shutil.rmtree(folder), folder.write_text("a file")),
        ],
    )
    def test_damage_is_noticed_and_mended(
        self, upstream: Upstream, mirror: MirrorSource, cache: SnapshotCache, damage: Any
    ) -> None:
        folder = cache.get(mirror, upstream.pull_request()).folder
        damage(folder)
        assert cache.find(upstream.pull_request()) is None
        mended = cache.get(mirror, upstream.pull_request())
        assert mended.folder == folder
        assert_frozen(mended)
        assert sorted(path.name for path in cache.root.iterdir()) == [".locks", folder.name]

    def test_reading_with_git_is_no_damage(
        self, upstream: Upstream, mirror: MirrorSource, cache: SnapshotCache
    ) -> None:
        """A copy that keeps times is clean for git without reading a file again."""
        snapshot = cache.get(mirror, upstream.pull_request())
        git(snapshot.repo, "status", GIT_OPTIONAL_LOCKS="0")
        git(snapshot.repo, "log", "-p")
        assert cache.find(upstream.pull_request()) == snapshot

    def test_an_agent_that_ruins_its_copy_spoils_nothing(
        self, upstream: Upstream, mirror: MirrorSource, cache: SnapshotCache, tmp_path: Path
    ) -> None:
        snapshot = cache.get(mirror, upstream.pull_request())
        own = tmp_path / "own"
        shutil.copytree(snapshot.repo, own, symlinks=True)
        git(own, "gc", "--quiet", "--prune=now")
        (own / "a.txt").write_text("ruined")
        shutil.rmtree(own / ".git")
        assert cache.find(upstream.pull_request()) == snapshot
        assert_frozen(snapshot)

    def test_what_a_killed_builder_left_is_removed(
        self, upstream: Upstream, mirror: MirrorSource, cache: SnapshotCache
    ) -> None:
        folder = cache.get(mirror, upstream.pull_request()).folder
        left = cache.root / f".{folder.name}.killed"
        (left / "repo").mkdir(parents=True)
        shutil.rmtree(folder)
        cache.get(mirror, upstream.pull_request())
        assert sorted(path.name for path in cache.root.iterdir()) == [".locks", folder.name]

    def test_processes_that_build_the_same_one_agree(
        self, upstream: Upstream, mirror: MirrorSource, tmp_path: Path
    ) -> None:
        arguments = (str(tmp_path / "cache"), mirror.template, upstream.pull_request())
        with multiprocessing.get_context("spawn").Pool(3) as pool:
            results = pool.map(build_in_child, [arguments] * 3)
        assert len(set(results)) == 1
        assert len(list((tmp_path / "cache").iterdir())) == 2

    def test_a_cache_that_cannot_be_written_is_named(
        self, upstream: Upstream, mirror: MirrorSource, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(UnavailableError, match="cannot be written"):
            SnapshotCache(tmp_path / "file" / "cache").get(mirror, upstream.pull_request())

    def test_the_umask_does_not_matter(self, upstream: Upstream, mirror: MirrorSource, cache: SnapshotCache) -> None:
        before = os.umask(0o077)
        try:
            snapshot = cache.get(mirror, upstream.pull_request())
        finally:
            os.umask(before)
        assert_frozen(snapshot)
        for path in (snapshot.folder, snapshot.pr_files, snapshot.pr_files / "diff.patch"):
            assert path.stat().st_mode & 0o044 == 0o044


def test_a_corpus_without_a_source_is_refused() -> None:
    with pytest.raises(CrbError, match="does not say where its repositories are"):
        source_for("none", None)

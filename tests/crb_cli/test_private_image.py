"""Of a private image the digest is published with results; where it lies is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import select, update

from crb_cli.builds import resolved_build
from crb_cli.export_private import private_of
from crb_core.agent import AgentManifest
from crb_core.agent_source import AgentSource
from crb_core.settings import Settings
from crb_core.store.tables import AgentBuildRow, AttemptRow, core
from tests.crb_core.archived import SWEEP, contents, make_store
from tests.crb_web.audit_store import opened
from tests.e2e.farm import crb as run

PLACE = "registry.example.com/team-secret/reviewer"
DIGEST = "sha256:" + "d" * 64
IMAGE_ID = "sha256:" + "1" * 64


def source(visibility: str, image: str = f"{PLACE}@{DIGEST}") -> AgentSource:
    manifest = AgentManifest(
        name="reviewer", display_name="Reviewer", image=image, image_visibility=visibility, contacts=("someone",)
    )
    return AgentSource(manifest=manifest, folder=None, is_bundled=False)


@pytest.mark.parametrize("image", [f"{PLACE}@{DIGEST}", f"{PLACE}:latest", f"{PLACE}", f"{PLACE}:1@{DIGEST}"])
def test_the_build_names_no_registry_and_can_still_be_pulled(image: str) -> None:
    """Its id is made of the digest alone; the reference, which stays on the farm, names repository and digest."""
    build = resolved_build(source("private", image), "docker", image, IMAGE_ID, f"{PLACE}@{DIGEST}")
    assert build.is_image_private
    assert (build.repo_digest, build.image.startswith(PLACE), build.image.endswith(f"@{DIGEST}")) == (
        DIGEST,
        True,
        True,
    )
    assert build.published.image == IMAGE_ID
    assert build.published.build_id == build.build_id
    assert PLACE not in build.published.model_dump_json()
    # What is compared before a retry is made of the stored build.
    again = resolved_build(source("private", image), "docker", build.image, build.image_id, build.repo_digest)
    assert (again.build_id, again.repo_digest) == (build.build_id, build.repo_digest)


def test_a_private_image_that_was_never_pulled_is_named_by_its_id() -> None:
    """No registry has it, so its reference says nothing but where somebody keeps it."""
    build = resolved_build(source("private"), "docker", f"{PLACE}:1", IMAGE_ID, None)
    assert (build.image, build.repo_digest) == (IMAGE_ID, None)


def test_a_public_image_is_recorded_as_it_is() -> None:
    """Whoever reads the results can pull it."""
    build = resolved_build(source("public"), "docker", f"{PLACE}@{DIGEST}", IMAGE_ID, f"{PLACE}@{DIGEST}")
    assert not build.is_image_private
    assert (build.image, build.repo_digest) == (f"{PLACE}@{DIGEST}", f"{PLACE}@{DIGEST}")
    assert build.published is build


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of private images, of which an attempt's detail tells the place."""
    folder = tmp_path_factory.mktemp("private")
    make_store(folder).close()
    builds, attempts = core(AgentBuildRow), core(AttemptRow)
    store = opened(folder)
    with store.write() as connection:
        for row in connection.execute(select(builds.c.id, builds.c.document)).all():
            private = {"image": f"{PLACE}@{DIGEST}", "repo_digest": DIGEST}
            connection.execute(update(builds).where(builds.c.id == row.id).values(document=row.document | private))
        connection.execute(update(attempts).values(detail=f"the image {PLACE}@{DIGEST} was pulled"))
    store.close()
    return folder


def crb(home: Path, *arguments: str) -> str:
    """What a command prints that ends well."""
    ran = run(*arguments, home=home)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_an_archive_does_not_tell_where_it_lies(home: Path, tmp_path: Path) -> None:
    """And is sound: builds keep their ids."""
    out = tmp_path / "sweep.tar"
    crb(home, "export", "sweep", SWEEP, "--out", str(out))
    members = contents(out)
    assert [name for name, data in members.items() if PLACE.encode() in data] == []
    builds = [json.loads(line)["build"] for line in members["builds.jsonl"].splitlines()]
    assert {each["repo_digest"] for each in builds} == {DIGEST}
    assert {each["image"] == each["image_id"] for each in builds} == {True}
    crb(home, "verify", str(out))


def test_texts_of_an_export_do_not_tell_it_either(home: Path) -> None:
    """Details, findings and logs, of archive and site alike; a blob that names it is withheld."""
    store = opened(home)
    with store.read() as connection:
        from crb_core.store.sweeps import sweep_builds
        from crb_core.store.tables import SweepRow

        sweep = connection.execute(select(core(SweepRow).c.id)).scalars().first()
        private = private_of(Settings(home=home), sweep_builds(connection, str(sweep)))
    store.close()
    assert private.text(f"{PLACE}@{DIGEST} and {PLACE}:2") == "<private image> and <private image>:2"
    assert private.is_in(f"pulled {PLACE}".encode())
    assert not private.is_in(b"registry.example.com/other")

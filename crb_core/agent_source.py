"""Where an agent comes from: its folder with ``agent.toml``, or a manifest that names a ready image."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from crb_core.agent import AgentManifest
from crb_core.bundled import bundled
from crb_core.errors import InputError, Where
from crb_core.formats.agent_toml import MANIFEST_NAME, load_manifest

__all__ = ["AgentSource", "ContextFile", "list_agents", "load_agent"]

#: Largest build context, in bytes: a folder that holds more was hardly meant.
MAX_CONTEXT_BYTES = 256 * 1024 * 1024
#: Left out of context and digest: what running the agent or editing it leaves behind.
_LITTER = {"__pycache__", ".git", ".DS_Store", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


@dataclass(frozen=True, kw_only=True)
class ContextFile:
    """A file of a build context: its path there (with ``/``), where it is, and whether it may be executed."""

    name: str
    path: Path
    executable: bool


@dataclass(frozen=True, kw_only=True)
class AgentSource:
    """An agent's manifest and its folder. ``folder`` is None where only a manifest with an image is given."""

    manifest: AgentManifest
    folder: Path | None
    #: Whether it came with crb, so that the process runner may run it.
    is_bundled: bool = False

    @property
    def dockerfile(self) -> str:
        """The Dockerfile's path inside the build context."""
        folder = self._folder()
        return f"{folder.name}/Dockerfile" if self.manifest.shared_folders else "Dockerfile"

    def context_files(self) -> tuple[ContextFile, ...]:
        """The build context: regular files by sorted path, without caches and compiled Python.

        The agent's folder is its root; with ``shared_folders`` the root is the parent, holding the folder and those.
        Raises InputError for a shared folder that is not there, for links and special files, and above 256 MiB.
        """
        folder = self._folder()
        if not self.manifest.shared_folders:
            files = sorted(_walk(folder, ""), key=lambda file: file.name)
        else:
            names = sorted({folder.name, *self.manifest.shared_folders})
            for name in names:
                if not (folder.parent / name).is_dir() or (folder.parent / name).is_symlink():
                    raise InputError(
                        f"the shared folder {name} is not beside the agent's folder",
                        where=Where(file=str(folder / MANIFEST_NAME), field="shared_folders"),
                        remedy=f"Create {folder.parent / name} or take it off the list",
                    )
            files = sorted(
                (file for name in names for file in _walk(folder.parent / name, f"{name}/")),
                key=lambda file: file.name,
            )
        size = sum(file.path.stat().st_size for file in files)
        if size > MAX_CONTEXT_BYTES:
            raise InputError(
                f"the agent's folder holds {size} bytes, more than the {MAX_CONTEXT_BYTES} of a build context",
                where=Where(file=str(folder)),
                remedy="Move what the image does not need elsewhere",
            )
        return tuple(files)

    @property
    def digest(self) -> str:
        """``sha256:`` and the SHA-256 over names, modes and contents of the context: the process runner's image id."""
        digest = hashlib.sha256(self.dockerfile.encode() + b"\0")
        for file in self.context_files():
            content = hashlib.sha256(file.path.read_bytes()).hexdigest()
            line = f"{file.name}\0{'x' if file.executable else '-'}\0{content}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
        return f"sha256:{digest.hexdigest()}"

    @property
    def process_argv(self) -> tuple[str, ...]:
        """The command for the process runner, to be run in ``folder``; empty where the agent has none.

        ``python`` is the interpreter that runs now, so that tools of its environment are found beside it.
        """
        words = self.manifest.process_command
        if not words:
            return ()
        folder = self._folder()
        return tuple(
            sys.executable if word == "python" and place == 0 else self._absolute(folder, word)
            for place, word in enumerate(words)
        )

    @staticmethod
    def _absolute(folder: Path, word: str) -> str:
        """A word that names a file of the folder as an absolute path, so that any working folder will do."""
        candidate = folder / word
        return str(candidate) if not word.startswith("-") and "/" not in word and candidate.is_file() else word

    def _folder(self) -> Path:
        if self.folder is None:
            raise InputError(
                f"the agent {self.manifest.name} has no folder to build or run from",
                remedy="Give the folder with its agent.toml and Dockerfile",
            )
        return self.folder


def list_agents(root: Path | None = None) -> tuple[AgentSource, ...]:
    """The agents in ``root`` (by default the bundled ones), sorted by name.

    A folder without ``agent.toml`` is no agent. Raises InputError for a manifest that breaks a rule, for two agents
    of one name and, in the bundled set, for a folder that is not named after its agent.
    """
    folder = root or bundled("agents")
    found: dict[str, AgentSource] = {}
    for path in sorted(folder.iterdir()):
        if not (path / MANIFEST_NAME).is_file():
            continue
        source = _load_folder(path, is_bundled=root is None)
        name = source.manifest.name
        if name in found:
            raise InputError(
                f"two agents are called {name}",
                where=Where(file=str(path / MANIFEST_NAME), field="name"),
                remedy=f"The other is {found[name].folder}; rename one of them",
            )
        found[name] = source
    return tuple(found[name] for name in sorted(found))


def load_agent(name_or_path: str | Path) -> AgentSource:
    """A bundled agent by name, or an agent by path: its folder, its ``agent.toml`` or a ReviewBench manifest.

    A text with a slash or a suffix of a manifest is a path; any other is a name first and a path after.
    Raises InputError that lists the names if it is neither.
    """
    text = str(name_or_path)
    path = Path(name_or_path).expanduser()
    is_path = isinstance(name_or_path, Path) or os.sep in text or path.suffix in {".toml", ".json"}
    agents = bundled("agents")
    if not is_path and text not in {"", ".", ".."} and (agents / text / MANIFEST_NAME).is_file():
        return _load_folder(agents / text, is_bundled=True)
    if is_path or (path / MANIFEST_NAME).is_file():
        if path.suffix == ".json" and not path.is_dir():
            return AgentSource(manifest=load_manifest(path), folder=None)
        folder = (path.parent if path.name == MANIFEST_NAME and not path.is_dir() else path).absolute()
        if folder.is_file():
            raise InputError(
                f"{text} is neither a folder, nor an agent.toml, nor a .json manifest",
                remedy="An agent.toml keeps that name, beside its Dockerfile",
            )
        return _load_folder(folder, is_bundled=folder.resolve().parent == agents.resolve())
    names = ", ".join(source.manifest.name for source in list_agents())
    raise InputError(
        f"there is no agent {text!r}", remedy=f"Give a bundled one ({names}) or the path of a folder with agent.toml"
    )


def _load_folder(folder: Path, *, is_bundled: bool) -> AgentSource:
    manifest = load_manifest(folder)
    if is_bundled and manifest.name != folder.name:
        raise InputError(
            f"the folder {folder.name} holds an agent called {manifest.name}",
            where=Where(file=str(folder / MANIFEST_NAME), field="name"),
            remedy="Give both the same name",
        )
    if not is_bundled and manifest.image is None and not (folder / "Dockerfile").is_file():
        raise InputError(
            f"the agent {manifest.name} names no image and has no Dockerfile",
            where=Where(file=str(folder / MANIFEST_NAME), field="image"),
            remedy="Add image to the manifest, or a Dockerfile beside it",
        )
    return AgentSource(manifest=manifest, folder=folder.absolute(), is_bundled=is_bundled)


def _walk(folder: Path, prefix: str) -> Iterator[ContextFile]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name in _LITTER or entry.name.endswith(".pyc"):
                continue
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")
            elif stat.S_ISREG(mode):
                yield ContextFile(name=prefix + entry.name, path=Path(entry.path), executable=bool(mode & stat.S_IXUSR))
            else:
                raise InputError(
                    "an agent's folder holds a link or a special file",
                    where=Where(file=entry.path),
                    remedy="Replace it by a regular file",
                )

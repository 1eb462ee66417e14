"""Make ``.venv`` with exactly what ``uv.lock`` names. Needs Python 3.11 and its standard library, nothing else.

    python3 tools/setup.py demo|farm|test

The locked uv comes through pip where Python has pip, which knows the proxies and mirrors of this machine, and else
from the address in ``uv.lock``. Either way its SHA-256 must be the locked one. ``docs/decisions/0004`` has the reasons.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import venv
import zipfile
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
BIN = ENVIRONMENT / "bin"
#: What was set up, written last; absent while a set-up is under way or was interrupted.
STAMP = ENVIRONMENT / ".crb-setup.json"
#: There while a set-up is under way.
UNFINISHED = ENVIRONMENT / ".crb-setup-unfinished"

#: Dependency groups by what is to be done; each holds the ones before it.
PROFILES = {"demo": ["lint-agent", "build"], "farm": ["farm", "build"], "test": ["dev", "build"]}
MINIMUM = (3, 11)
DOWNLOAD_TIMEOUT_SECONDS = 60


class SetupError(Exception):
    """One plain sentence: what is wrong and what to do."""


def main(arguments: list[str]) -> None:
    if len(arguments) != 1 or arguments[0] not in PROFILES:
        _fail(f"Usage: python3 tools/setup.py {'|'.join(PROFILES)}")
    if sys.version_info < MINIMUM:
        _fail(f"crb needs Python 3.11 or newer; this is {platform.python_version()} ({sys.executable}).")
    try:
        _set_up(arguments[0])
    except SetupError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"The set-up of {ENVIRONMENT} failed: {error}. Mend that and start the command again.")
    except KeyboardInterrupt:
        _fail("The set-up was interrupted; the next start goes on with it.", status=130)


def _fail(sentence: str, *, status: int = 1) -> NoReturn:
    print(f"setup: {sentence}", file=sys.stderr)
    sys.exit(status)


def _say(text: str) -> None:
    print(f"setup: {text}", file=sys.stderr, flush=True)


def _set_up(profile: str) -> None:
    if _is_done(profile):
        return
    # Two commands that are started at once in a fresh clone: the second waits, then finds the work done.
    lock = os.open(ROOT, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_done(profile):
            _install(profile)
    finally:
        os.close(lock)


def _digest() -> str:
    """Of everything that decides what is installed; another place of the checkout counts, since scripts name it."""
    content = hashlib.sha256(str(ROOT).encode())
    for name in ("uv.lock", "pyproject.toml", "tools/setup.py"):
        try:
            content.update(hashlib.sha256((ROOT / name).read_bytes()).digest())
        except FileNotFoundError:
            raise SetupError(f"{name} is missing from {ROOT}. Restore it from the repository.") from None
    return content.hexdigest()


def _is_done(profile: str) -> bool:
    digest = _digest()
    try:
        stamp = json.loads(STAMP.read_bytes())
        done = stamp["digest"] == digest and profile in stamp["profiles"]
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return False
    # A Python that was upgraded or removed leaves a link to nothing.
    return done and (BIN / "python").exists() and (BIN / "crb").exists()


def _install(profile: str) -> None:
    exact = True
    if _stamped_root() not in {None, str(ROOT)} or UNFINISHED.exists() or not _python_works():
        _remove_environment()
    elif _stamp():
        # What `make test` brought stays for a demo, also when the lock has moved on.
        names = list(PROFILES)
        profile = max([profile, *(name for name in _stamped_profiles() if name in PROFILES)], key=names.index)
    else:
        # Somebody else made it, and what they put there is theirs.
        exact = False
    _say(f"preparing {ENVIRONMENT} (once)")
    ENVIRONMENT.mkdir(exist_ok=True)
    UNFINISHED.touch()
    STAMP.unlink(missing_ok=True)
    if not _python_works():
        venv.create(ENVIRONMENT, symlinks=True, with_pip=False)
    uv = _uv()
    environment = {key: value for key, value in os.environ.items() if key not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    environment |= {"UV_PROJECT_ENVIRONMENT": str(ENVIRONMENT), "UV_PYTHON_DOWNLOADS": "never"}
    command = [str(uv), "sync", "--frozen", "--no-default-groups", "--python", str(BIN / "python")]
    for group in PROFILES[profile]:
        command += ["--group", group]
    if not exact:
        command.append("--inexact")
    if not sys.stderr.isatty():
        command += ["--no-progress", "--quiet"]
    _say("installing what uv.lock names")
    status = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, check=False).returncode
    if status != 0:
        raise SetupError(
            f"uv could not install the locked packages (status {status}, its own words are above). "
            "Check the network, proxy and disk, then start the command again."
        )
    _write_stamp(_held_by(profile))
    UNFINISHED.unlink()


def _held_by(profile: str) -> list[str]:
    """The profile and the smaller ones that it holds."""
    names = list(PROFILES)
    return names[: names.index(profile) + 1]


def _write_stamp(profiles: list[str]) -> None:
    temporary = STAMP.with_suffix(".new")
    temporary.write_text(json.dumps({"digest": _digest(), "profiles": profiles, "root": str(ROOT)}))
    temporary.replace(STAMP)


def _stamp() -> dict[str, Any]:
    try:
        stamp = json.loads(STAMP.read_bytes())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _stamped_root() -> str | None:
    root = _stamp().get("root")
    return root if isinstance(root, str) else None


def _stamped_profiles() -> list[str]:
    profiles = _stamp().get("profiles")
    return profiles if isinstance(profiles, list) else []


def _python_works() -> bool:
    """Whether the environment's interpreter runs and is new enough."""
    try:
        done = subprocess.run(
            [
                str(BIN / "python"),
                "-c",
                f"import sys; sys.exit(sys.version_info < {MINIMUM} or sys.prefix == sys.base_prefix)",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0


def _remove_environment() -> None:
    if ENVIRONMENT.is_symlink() or (ENVIRONMENT.exists() and not ENVIRONMENT.is_dir()):
        raise SetupError(f"{ENVIRONMENT} is no folder. Move it away and start the command again.")
    if ENVIRONMENT.exists():
        _say("the environment is unfinished or does not fit; starting afresh")
        shutil.rmtree(ENVIRONMENT)


def _uv() -> Path:
    """The uv that uv.lock names, in the environment's bin folder."""
    version, wheels = _locked_uv()
    target = BIN / "uv"
    if _answers_with_version(target, version):
        return target
    problems = []
    with tempfile.TemporaryDirectory(prefix="crb-setup-") as folder:
        for way in (_through_pip, _from_the_lock):
            try:
                archive = way(version, wheels, Path(folder))
            except SetupError as error:
                problems.append(str(error))
                continue
            _check(archive, wheels)
            _unpack(archive, target)
            if _answers_with_version(target, version):
                return target
            problems.append(f"the uv of {archive.name} does not run on this machine")
    raise SetupError(
        f"uv {version} cannot be had: {'; '.join(problems)}. Check the network or the proxy variables, or install pip."
    )


def _locked_uv() -> tuple[str, list[dict[str, str]]]:
    import tomllib  # not at the top: an older Python must reach the sentence that says it is too old

    try:
        lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
        package = next(package for package in lock["package"] if package["name"] == "uv")
        return package["version"], [{"url": wheel["url"], "hash": wheel["hash"]} for wheel in package["wheels"]]
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError, StopIteration) as error:
        raise SetupError(f"uv.lock does not say which uv to use ({error}). Restore it from the repository.") from None


def _name(wheel: dict[str, str]) -> str:
    return unquote(urlsplit(wheel["url"]).path.rsplit("/", 1)[-1])


def _choose(wheels: list[dict[str, str]], version: str) -> dict[str, Any]:
    """The wheel for this machine, by the platform tags in its file name."""
    for wheel in wheels:
        if any(_fits(tag) for tag in _name(wheel).removesuffix(".whl").rsplit("-", 1)[-1].split(".")):
            return wheel
    raise SetupError(
        f"uv {version} has no build for {sys.platform} on {platform.machine()}. "
        f"Install uv {version} yourself as {BIN / 'uv'}."
    )


def _fits(tag: str) -> bool:
    machine = platform.machine().lower().replace("amd64", "x86_64")
    if sys.platform == "darwin":
        found = re.fullmatch(r"macosx_(\d+)_(\d+)_(\w+)", tag)
        release = tuple(int(part) for part in (platform.mac_ver()[0] or "11.0").split(".")[:2])
        return found is not None and found[3] in {machine, "universal2"} and (int(found[1]), int(found[2])) <= release
    machine = "aarch64" if machine == "arm64" else machine
    libc = _glibc()
    if libc is None:
        return re.fullmatch(rf"musllinux_\d+_\d+_{machine}", tag) is not None
    found = re.fullmatch(rf"manylinux_(\d+)_(\d+)_{machine}", tag)
    return found is not None and (int(found[1]), int(found[2])) <= libc


def _glibc() -> tuple[int, int] | None:
    """glibc's version; None on a Linux with another C library."""
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError, AttributeError):
        return None
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def _through_pip(version: str, wheels: list[dict[str, str]], folder: Path) -> Path:
    """pip checks the hashes itself; _check does it again."""
    requirements = folder / "requirements.txt"
    hashes = " ".join(f"--hash={entry['hash']}" for entry in wheels)
    requirements.write_text(f"uv=={version} {hashes}\n")
    target = folder / "pip"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"),
            *("--no-deps", "--only-binary=:all:", "--require-hashes"),
            *("--dest", str(target), "--requirement", str(requirements)),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    found = sorted(target.glob("*.whl"))
    if done.returncode == 0 and len(found) == 1:
        return found[0]
    said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
    if any("No module named pip" in line for line in said):
        raise SetupError("this Python has no pip")
    raise SetupError(f"pip could not download it ({said[-1].strip() if said else f'status {done.returncode}'})")


def _from_the_lock(version: str, wheels: list[dict[str, str]], folder: Path) -> Path:
    wheel = _choose(wheels, version)
    _say(f"downloading uv {version}")
    target = folder / _name(wheel)
    try:
        with (
            # The lock's own address, and _check decides over what it gives.
            urllib.request.urlopen(wheel["url"], timeout=DOWNLOAD_TIMEOUT_SECONDS) as answer,  # nosec B310
            target.open("wb") as stream,
        ):
            shutil.copyfileobj(answer, stream)
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise SetupError(f"the download failed ({getattr(error, 'reason', error)})") from None
    return target


def _check(archive: Path, wheels: list[dict[str, str]]) -> None:
    digest = f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}"
    if digest not in {wheel["hash"] for wheel in wheels}:
        raise SetupError(
            f"The downloaded {archive.name} does not have the SHA-256 that uv.lock names. Something on the way "
            "changed it; nothing of it was run."
        )


def _unpack(archive: Path, target: Path) -> None:
    with zipfile.ZipFile(archive) as wheel:
        names = [name for name in wheel.namelist() if re.fullmatch(r"uv-[^/]+\.data/scripts/uv", name)]
        if len(names) != 1:
            raise SetupError(f"{archive.name} holds no uv. Report this with the version of uv in uv.lock.")
        temporary = target.with_suffix(".new")
        with wheel.open(names[0]) as source, temporary.open("wb") as stream:
            shutil.copyfileobj(source, stream)
    temporary.chmod(0o755)
    temporary.replace(target)


def _answers_with_version(uv: Path, version: str) -> bool:
    try:
        done = subprocess.run(
            [str(uv), "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.split()[1:2] == [version]


if __name__ == "__main__":
    main(sys.argv[1:])

"""Builds what the parity suite judges with: a venv with torch, and unpacked DeepSpeed releases.

`python -m tests.parity.environment [RELEASE …]` puts all of it under `.parity/` (or `$DSCONFIG_PARITY_HOME`):

    venv/              torch and what an import of DeepSpeed needs
    pydantic1/         pydantic 1, for the releases up to 0.11
    transformers/      Transformers, for the engines whose memory is measured
    adapters/          PEFT and bitsandbytes, for the same
    sd/                the releases' source distributions, as the package index has them
    ds/RELEASE/        the same unpacked
    programs/NAME/     venvs over the first with programs that hand configs on: `tests.parity.loading`

Everything that is already there is kept; what an interrupted run left behind is repaired.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKERS = Path(__file__).resolve().parent / "workers"
"""Programs that the interpreter of the environment runs: none of them imports anything of ours."""
SHIM = WORKERS / "shim"
DEFAULT = ("0.19.8", "0.14.5")
TESTED = (
    "0.3.16 0.4.5 0.5.10 0.6.7 0.7.7 0.8.3 0.9.5 0.10.3 0.11.2 0.12.6 0.13.5 0.14.5 0.15.4 0.16.9 0.17.6"
    " 0.18.9 0.19.5 0.19.6 0.19.7 0.19.8"
)
"""One release of every series, and the last four: the suite's `--all`."""

PACKAGES = {
    "numpy": "numpy",
    "setuptools": "setuptools",
    "wheel": "wheel",
    "ninja": "ninja",
    "cpuinfo": "py-cpuinfo",
    "hjson": "hjson",
    "msgpack": "msgpack",
    "psutil": "psutil",
    "pydantic": "pydantic>=2",
    "tqdm": "tqdm",
    "einops": "einops",
    "packaging": "packaging",
}
"""Import name → requirement, of everything except torch that some release imports."""

INSTALLED_INFO = """version = {release!r}
git_hash = git_branch = "sdist"
installed_ops = {{}}
compatible_ops = {{}}
torch_info = dict(version="2.13", cuda_version="0.0", hip_version="0.0", nccl_version="0.0")
torch_info["bf16_support"] = False
accelerator_name = "cpu"
"""
"""What DeepSpeed's own `setup.py` would have written into `deepspeed/git_version_info_installed.py`."""


class BuildError(RuntimeError):
    """A step of the build failed; the message says which and shows the end of its output."""


def home() -> Path:
    """Where the environment is, built or not."""
    return Path(os.environ.get("DSCONFIG_PARITY_HOME") or ROOT / ".parity").absolute()


def python() -> Path:
    """The interpreter that imports DeepSpeed."""
    return home() / "venv" / "bin" / "python"


def order(release: str) -> tuple[int, ...]:
    """A sort key of releases."""
    return tuple(int(part) for part in release.split("."))


def available() -> list[str]:
    """The releases that can judge here, oldest first; empty where the environment is not built."""
    if not python().exists():
        return []
    found = (home() / "ds").glob("*/deepspeed/git_version_info_installed.py")
    return sorted((path.parents[1].name for path in found), key=order)


def import_path(release: str) -> str:
    """PYTHONPATH under which the venv imports this release."""
    old = [home() / "pydantic1"] if order(release) < (0, 12) else []
    return os.pathsep.join(str(path) for path in (SHIM, *old, home() / "ds" / release))


def clean_variables(release: str) -> dict[str, str]:
    """The process environment of a judge: nothing in it that DeepSpeed reads."""
    kept = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "SYSTEMROOT")
    variables = {name: os.environ[name] for name in kept if name in os.environ}
    return variables | {
        "PYTHONPATH": import_path(release),
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "",
        "DSCONFIG_PARITY_SHIM": "1",
        "OMP_NUM_THREADS": "1",
        "LC_ALL": "C.UTF-8",
    }


def run(*command: str | Path, variables: dict[str, str] | None = None) -> None:
    """Runs a step quietly; its output is shown only when it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | (variables or {}),
        check=False,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise BuildError(f"`{' '.join(str(part) for part in command[:4])} …` failed:\n{tail}")


def say(text: str) -> None:
    """One line of progress."""
    print(f"parity: {text}", flush=True)


def build_venv() -> None:
    """The venv with torch and the packages that DeepSpeed imports."""
    if not python().exists():
        say(f"creating {home() / 'venv'}")
        run(sys.executable, "-m", "venv", "--clear", home() / "venv")
    site = next((home() / "venv" / "lib").glob("python*/site-packages"))
    constraints = ROOT / "constraints.txt"
    if not list(site.glob("torch-*.dist-info")):
        say("installing torch (the largest step)")
        run(python(), "-m", "pip", "install", "-q", "-c", constraints, "torch")
    missing = [
        text
        for name, text in PACKAGES.items()
        if not (site / name).exists() and not (site / f"{name}.py").exists()
    ]
    if missing:
        say(f"installing {', '.join(missing)}")
        run(python(), "-m", "pip", "install", "-q", "-c", constraints, *missing)


def build_pydantic1() -> None:
    """Pydantic 1 in a folder of its own: the releases up to 0.11 import nothing newer."""
    folder = home() / "pydantic1"
    if not list(folder.glob("pydantic-1*.dist-info")):
        say("installing pydantic 1 for the releases up to 0.11")
        shutil.rmtree(folder, ignore_errors=True)
        run(python(), "-m", "pip", "install", "-q", "--target", folder, "pydantic<2")


def build_transformers() -> None:
    """Transformers and adapters in folders of their own: only models that are measured need them."""
    folder = home() / "transformers"
    if not list(folder.glob("transformers-*.dist-info")):
        say("installing transformers")
        shutil.rmtree(folder, ignore_errors=True)
        run(python(), "-m", "pip", "install", "-q", "--target", folder, "transformers")

    folder = home() / "adapters"
    if not list(folder.glob("peft-*.dist-info")):
        say("installing peft and bitsandbytes")
        shutil.rmtree(folder, ignore_errors=True)
        # without what they depend on: torch is there, and Transformers brings the rest
        packages = ("peft", "accelerate", "bitsandbytes")
        run(python(), "-m", "pip", "install", "-q", "--no-deps", "--target", folder, *packages)
    if not list(folder.glob("greenlet-*.dist-info")):  # for what DeepSpeed starts as processes
        run(python(), "-m", "pip", "install", "-q", "--target", folder, "greenlet")


def transformers() -> tuple[Path, Path]:
    """Folders from which Transformers and what is built on it are imported."""
    return home() / "transformers", home() / "adapters"


def build_release(release: str) -> None:
    """Downloads and unpacks one release."""
    target = home() / "ds" / release
    info = target / "deepspeed" / "git_version_info_installed.py"
    if info.exists():
        return
    archive = home() / "sd" / f"deepspeed-{release}.tar.gz"
    if not archive.exists():
        say(f"downloading deepspeed {release}")
        # pip runs setup.py for the metadata, which imports torch and, in 0.8 to 0.10, half of DeepSpeed
        variables = {"DS_BUILD_OPS": "0", "DSCONFIG_PARITY_SHIM": "1", "PYTHONPATH": import_path(release)}
        options = ("-q", "--no-deps", "--no-build-isolation", "--no-binary", ":all:", "-d", home() / "sd")
        run(python(), "-m", "pip", "download", *options, f"deepspeed=={release}", variables=variables)
    if not archive.exists():
        raise BuildError(f"the package index has no source distribution of deepspeed {release}")
    partial = target.with_name(f".{release}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(partial, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        archive.unlink()
        raise BuildError(f"{archive} was not whole and is deleted; run again ({error})") from error
    (unpacked,) = partial.iterdir()
    (unpacked / "deepspeed" / info.name).write_text(INSTALLED_INFO.format(release=release), encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    unpacked.rename(target)
    shutil.rmtree(partial)


def build(releases: list[str]) -> None:
    """Everything that judging these releases needs."""
    for folder in ("sd", "ds"):
        (home() / folder).mkdir(parents=True, exist_ok=True)
    build_venv()
    if any(order(release) < (0, 12) for release in releases):
        build_pydantic1()
    for release in releases:
        build_release(release)


def main(arguments: list[str] | None = None) -> int:
    """Command line of the builder."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity.environment", description=__doc__.split("\n")[0]
    )
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument("--all", action="store_true", help="the 20 releases the suite is tuned on")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    try:
        build(TESTED.split() if options.all else options.releases or list(DEFAULT))
    except (BuildError, OSError) as error:
        print(f"parity: {error}", file=sys.stderr)
        return 2
    say(f"ready in {home()} after {time.monotonic() - start:.0f} s: {' '.join(available())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

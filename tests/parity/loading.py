"""Builds the environments in which other programs' own loaders run, beside the suite's venv, and asks them.

.parity/programs/NAME/   a venv over `.parity/venv`, which has torch; packages come by pip, by their names
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.parity import environment
from tests.parity.environment import ROOT, BuildError, home, run, say

METADATA = "Metadata-Version: 2.1\nName: deepspeed\nVersion: 0.19.8\n"
"""Programs ask whether DeepSpeed is installed, and which; what takes its place is `stand_in`."""


class Packages(NamedTuple):
    """What pip installs: with what it requires, and alone, where that would need a GPU or another torch."""

    whole: tuple[str, ...]
    alone: tuple[str, ...] = ()
    reader: str | None = None
    """The reader in the version that it brings along, where the newest one fills otherwise."""


LOADERS: Mapping[str, Packages] = {
    "lightning": Packages(("lightning==2.6.6", "jsonargparse[signatures]")),
    "llamafactory": Packages(
        ("transformers==5.6.0", "datasets==4.0.0", "omegaconf", "pandas", "pydantic", "fire", "scipy"),
        (
            "llamafactory==0.9.5", "accelerate==1.11.0", "peft==0.18.1", "trl==0.24.0", "modelscope", "av",
            "torchdata", "matplotlib", "sse-starlette", "uvicorn", "fastapi",
        ),
        "transformers==5.6.0",
    ),
    "axolotl": Packages(
        (
            "transformers==5.16.1", "accelerate==1.13.0", "datasets==4.8.4", "peft==0.20.0",
            "pydantic==2.12.5", "addict", "art", "colorama", "python-dotenv", "typer==0.25.1", "PyYAML",
            "requests", "pillow",
            "triton", "posthog", "evaluate", "wandb", "numba",
        ),
        ("axolotl==0.19.0", "trl==1.9.0"),
        "transformers==5.16.1",
    ),
    "swift": Packages(
        (
            "transformers<5.20", "accelerate", "datasets<4.8.5", "json-repair", "peft<0.21", "modelscope",
            "addict", "dacite", "einops", "pillow", "requests",
            "simplejson", "sortedcontainers", "tiktoken", "aiohttp",
            "fastapi", "uvicorn", "openai", "matplotlib", "pandas", "scipy", "sentencepiece",
        ),
        ("trl<1.0", "ms-swift==4.6.0"),
    ),
}  # fmt: skip
"""The loaders that run in an environment of their own, by name."""
LIBRARIES = "libraries"
"""The environment of the newest libraries that take a config, and of what dsconfig needs."""
ENVIRONMENTS = {**LOADERS, LIBRARIES: Packages(("transformers", "accelerate", "lightning", "PyYAML", "rich"))}


def python(name: str) -> Path:
    """The interpreter of an environment."""
    return home() / "programs" / name / "bin" / "python"


def packages(name: str) -> Path:
    """Where the packages of an environment are."""
    (site,) = (home() / "programs" / name / "lib").glob("python*/site-packages")
    return site


def build(name: str) -> None:
    """One environment; one that is there is kept."""
    folder = home() / "programs" / name
    if (folder / "ready").exists():
        return
    environment.build_venv()
    shutil.rmtree(folder, ignore_errors=True)
    say(f"building {folder}")
    run(environment.python(), "-m", "venv", "--without-pip", folder)
    site = packages(name)
    (base,) = (home() / "venv" / "lib").glob("python*/site-packages")
    (site / "zz_base.pth").write_text(f"{base}\n", "utf-8")
    pip = (environment.python(), "-m", "pip", "--python", python(name), "install", "-q")
    constraints = ROOT / "constraints.txt"
    run(*pip, "--only-binary", ":all:", "-c", constraints, *ENVIRONMENTS[name].whole)
    if ENVIRONMENTS[name].alone:
        run(*pip, "--no-deps", *ENVIRONMENTS[name].alone)
    info = site / "deepspeed-0.19.8.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(METADATA, "utf-8")
    (folder / "ready").touch()


def asked(name: str, cases: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What a loader makes of each case: the config that goes to DeepSpeed, or a refusal.

    Raises:
        BuildError: it ended before it had answered all.
    """
    lines = [json.dumps(case) for case in cases]
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "USE_HF": "1", "AXOLOTL_DO_NOT_TRACK": "1"}
    done = subprocess.run(
        [str(python(name)), "-m", f"tests.parity.workers.loaders.{name}"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=kept | offline | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"},
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(lines):
        raise BuildError(f"{name} answered {len(answers)} of {len(lines)}:\n{done.stderr[-3000:]}")
    return answers

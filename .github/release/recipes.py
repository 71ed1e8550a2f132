"""Write the files with which other channels distribute a release: `make recipes`, after `make dist`.

    build/recipes/conda/recipe.yaml      for conda-forge's staged-recipes: rattler-build's format, built from the sdist
    build/recipes/pre-commit/            a repository that pre-commit installs from the wheel instead of a checkout

Version, requirements and hooks come from the sdist and this checkout, so that nothing is stated twice.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


def read_metadata(sdist: Path) -> dict[str, list[str]]:
    """Return the fields of an sdist's PKG-INFO, by name; each may occur several times."""
    with tarfile.open(sdist) as archive:
        member = archive.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert member is not None, sdist
        header = member.read().decode("utf-8").partition("\n\n")[0]
    fields: dict[str, list[str]] = {}
    for line in header.splitlines():
        name, colon, value = line.partition(": ")
        if colon and not line.startswith(" "):
            fields.setdefault(name, []).append(value)
    return fields


def conda_recipe(sdist: Path) -> dict[str, Any]:
    """Return the recipe of a package that is the same for every platform and Python.

    Such a package cannot have requirements for some versions of Python: it gets those of all.
    """
    metadata = read_metadata(sdist)
    (name,), (version,), (python,) = (metadata[key] for key in ("Name", "Version", "Requires-Python"))
    requirements = [Requirement(each) for each in metadata["Requires-Dist"]]
    runtime = [each for each in requirements if each.marker is None or "extra" not in str(each.marker)]
    lowest = python.removeprefix(">=")
    return {
        "schema_version": 1,
        "context": {"version": version, "python_min": lowest},
        "package": {"name": name, "version": "${{ version }}"},
        "source": {
            # The release on GitHub has the same sdist as the index (publish.yml).
            "url": f"{repository(metadata)}/releases/download/v{version}/{sdist.name}".replace(
                version, "${{ version }}"
            ),
            "sha256": hashlib.sha256(sdist.read_bytes()).hexdigest(),
        },
        "build": {
            "number": 0,
            "noarch": "python",
            "script": "${{ PYTHON }} -m pip install . -vv --no-deps --no-build-isolation",
            "python": {"entry_points": ["dsconfig = dsconfig.cli:main"]},
        },
        "requirements": {
            "host": ["python ${{ python_min }}.*", "pip", "hatchling >=1.26"],
            "run": ["python >=${{ python_min }}", *(conda_requirement(each) for each in runtime)],
        },
        "tests": [
            {"python": {"imports": ["dsconfig", "elastic"], "pip_check": True}},
            {"script": ["dsconfig --version", "dsconfig check --help"]},
        ],
        "about": {
            "summary": metadata["Summary"][0],
            "license": metadata["License-Expression"][0],
            "license_file": "LICENSE",
            "homepage": repository(metadata),
            "repository": repository(metadata),
        },
        "extra": {"recipe-maintainers": ["REPLACE-WITH-YOUR-GITHUB-NAME"]},
    }


def conda_requirement(requirement: Requirement) -> str:
    """Return a requirement in conda's words: `pydantic >=2.10,<3`."""
    name = re.sub(r"[-_.]+", "-", requirement.name).lower()
    bounds = ",".join(sorted(map(str, requirement.specifier), reverse=True))
    return f"{name} {bounds}".rstrip()


def repository(metadata: dict[str, list[str]]) -> str:
    """Return the address in the sdist."""
    addresses = dict(each.split(", ", 1) for each in metadata["Project-URL"])
    return addresses["Repository"]


def mirror_files(sdist: Path) -> dict[str, str]:
    """Return the files of the repository for pre-commit, by name.

    pre-commit clones a hook's repository and installs it. This one has no code, so a hook costs the wheel alone.
    """
    metadata = read_metadata(sdist)
    (name,), (version,) = metadata["Name"], metadata["Version"]
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    for hook in hooks:
        # With `--no-deps`, the wheel itself has to be asked for.
        hook["additional_dependencies"] = [f"{name}=={version}", *hook["additional_dependencies"]]
    project = (
        "[build-system]\n"
        'requires = ["hatchling>=1.26"]\n'
        'build-backend = "hatchling.build"\n\n'
        "[project]\n"
        f'name = "{name}-pre-commit"\n'
        f'version = "{version}"\n'
        f'description = "Hooks of {name} for pre-commit"\n'
        f'dependencies = ["{name}=={version}"]\n\n'
        "[tool.hatch.build.targets.wheel]\n"
        "bypass-selection = true\n"
    )
    readme = (
        f"# {name} for pre-commit\n\n"
        f"Hooks that install [{name}]({repository(metadata)}) from its wheel. Add to `.pre-commit-config.yaml`:\n\n"
        "```yaml\n"
        "- repo: ADDRESS-OF-THIS-REPOSITORY\n"
        f"  rev: v{version}\n"
        "  hooks:\n"
        f"  - id: {hooks[0]['id']}\n"
        "```\n"
    )
    return {
        ".pre-commit-hooks.yaml": yaml.safe_dump(hooks, sort_keys=False, width=120),
        "pyproject.toml": project,
        "README.md": readme,
    }


def main() -> int:
    """Write the files for the only sdist in a folder."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="folder with the sdist")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "recipes")
    options = parser.parse_args()
    sdists = sorted(options.dist.glob("*.tar.gz"))
    if len(sdists) != 1:
        print(f"{options.dist}: {len(sdists)} sdists instead of one; run `make dist` first", file=sys.stderr)
        return 2
    recipe = yaml.safe_dump(conda_recipe(sdists[0]), sort_keys=False, width=120)
    files = {"conda/recipe.yaml": recipe}
    files |= {f"pre-commit/{name}": text for name, text in mirror_files(sdists[0]).items()}
    for name, text in files.items():
        path = options.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""DeepSpeed versions in the requirements and lock files of a repository."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import ANY

import pytest

from dsconfig.launch.requirements import find_requirements, pinned_consumer_version

SAID = {
    "an exact pin": ("requirements.txt", "torch\ndeepspeed==0.14.5\n", "==0.14.5", 2),
    "extras and a marker": (
        "requirements.txt",
        'deepspeed[1bit] == 0.14.5 ; python_version > "3"\n',
        "==0.14.5",
        1,
    ),
    "a comment behind it": ("requirements-gpu.txt", "deepspeed==0.9.5  # not 0.10\n", "==0.9.5", 1),
    "a range": ("requirements.in", "deepspeed>=0.14,<0.16\n", ">=0.14,<0.16", 1),
    "capitals": ("requirements.txt", "DeepSpeed~=0.14.0\n", "~=0.14.0", 1),
    "a tag of git": (
        "requirements.txt",
        "deepspeed @ git+https://github.com/deepspeedai/DeepSpeed.git@v0.16.4\n",
        "==0.16.4",
        1,
    ),
    "a script that installs it": (
        "setup_env.sh",
        'pip install "torch==2.7.1" \\\n  "deepspeed==0.17.6" "transformers==4.44.2"\n',
        "==0.17.6",
        2,
    ),
    "a folder of requirements": ("requirements/train.txt", "deepspeed==0.14.5\n", "==0.14.5", 1),
    "PEP 621": (
        "pyproject.toml",
        '[project]\ndependencies = ["deepspeed==0.15.4", "torch"]\n',
        "==0.15.4",
        2,
    ),
    "an extra of PEP 621": (
        "pyproject.toml",
        '[project.optional-dependencies]\ntrain = [\n  "deepspeed>=0.15",\n]\n',
        ">=0.15",
        3,
    ),
    "a dependency group": (
        "pyproject.toml",
        '[dependency-groups]\ngpu = ["deepspeed<=0.16.9"]\n',
        "<=0.16.9",
        2,
    ),
    "Poetry": ("pyproject.toml", '[tool.poetry.dependencies]\ndeepspeed = "0.14.5"\n', "==0.14.5", 2),
    "Poetry's caret": (
        "pyproject.toml",
        '[tool.poetry.dependencies]\ndeepspeed = "^0.14.2"\n',
        ">=0.14.2,<0.15",
        2,
    ),
    "Poetry's tilde": (
        "pyproject.toml",
        '[tool.poetry.dependencies]\ndeepspeed = "~0.14.2"\n',
        ">=0.14.2,<0.15",
        2,
    ),
    "Poetry's table": (
        "pyproject.toml",
        '[tool.poetry.dependencies]\ndeepspeed = { version = ">=0.14", optional = true }\n',
        ">=0.14",
        2,
    ),
    "uv's lock": (
        "uv.lock",
        'version = 1\n[[package]]\nname = "deepspeed"\nversion = "0.17.2"\n',
        "==0.17.2",
        4,
    ),
    "Pipfile": ("Pipfile", '[packages]\ndeepspeed = "==0.14.5"\n', "==0.14.5", 2),
    "Pipfile's lock": (
        "Pipfile.lock",
        '{"default": {\n  "deepspeed": {\n    "hashes": ["sha256:1"],\n    "version": "==0.15.1"\n  }\n}}\n',
        "==0.15.1",
        4,
    ),
    "pixi": ("pixi.toml", '[pypi-dependencies]\ndeepspeed = { version = ">=0.16" }\n', ">=0.16", 2),
    "conda": ("environment.yml", "dependencies:\n  - conda-forge::deepspeed=0.14.5\n", "==0.14.5", 2),
    "conda's pip": ("environment.yml", "dependencies:\n  - pip:\n    - deepspeed==0.10.0\n", "==0.10.0", 3),
    "setup.cfg": ("setup.cfg", "[options]\ninstall_requires =\n  deepspeed>=0.9.3\n", ">=0.9.3", 3),
    "setup.py": ("setup.py", 'setup(install_requires=["deepspeed==0.12.6"])\n', "==0.12.6", 1),
    "an image": ("Dockerfile", 'FROM x\nRUN DS_BUILD_OPS=0 pip install "deepspeed==0.13.1"\n', "==0.13.1", 2),
}


@pytest.mark.parametrize("case", SAID)
def test_a_requirement_is_read_with_its_file_and_line(case: str, tmp_path: Path) -> None:
    name, text, specifier, line = SAID[case]
    tmp_path.joinpath(name).parent.mkdir(exist_ok=True)
    tmp_path.joinpath(name).write_text(text)
    requirements = find_requirements("deepspeed", str(tmp_path / "ds_config.json"))
    assert requirements is not None
    assert requirements.agreed_requirement is not None
    assert requirements.agreed_requirement.specifier == specifier
    assert requirements.agreed_requirement.source.endswith(f"{name}:{line}")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "deepspeed\n"),
        ("requirements.txt", "deepspeed-mii==0.2.0\nmy-deepspeed==1.0\ndeepspeed_kernels==3\n"),
        ("requirements.txt", "# deepspeed==0.14.5\n"),
        ("pyproject.toml", '[tool.poetry.dependencies]\ndeepspeed = "*"\n'),
        ("Dockerfile", "FROM deepspeed/deepspeed:v0.9\n"),
        ("notes.txt", "deepspeed==0.14.5\n"),
    ],
)
def test_requirement_without_a_version(name: str, text: str, tmp_path: Path) -> None:
    tmp_path.joinpath(name).write_text(text)
    assert find_requirements("deepspeed", str(tmp_path / "ds_config.json")) is None


def test_the_nearest_directory_wins(tmp_path: Path) -> None:
    tmp_path.joinpath(".git").mkdir()
    tmp_path.joinpath("requirements.txt").write_text("deepspeed==0.9.5\n")
    inner = tmp_path / "examples" / "llama"
    inner.mkdir(parents=True)
    config = str(inner / "ds_config.json")
    requirements = find_requirements("deepspeed", config)
    assert requirements is not None
    assert requirements.requirements[0].exact_version == "0.9.5"
    inner.joinpath("requirements.txt").write_text("deepspeed==0.16.4\n")
    from dsconfig.launch import repository_files

    repository_files.invalidate_cache()
    try:
        nearer = find_requirements("deepspeed", config)
    finally:
        repository_files.stop_watching_files()
    assert nearer is not None
    assert nearer.requirements[0].exact_version == "0.16.4"


def test_a_lock_file_counts_before_the_requirements_that_it_resolves(tmp_path: Path) -> None:
    tmp_path.joinpath("pyproject.toml").write_text('[project]\ndependencies = ["deepspeed>=0.14"]\n')
    tmp_path.joinpath("uv.lock").write_text('[[package]]\nname = "deepspeed"\nversion = "0.17.2"\n')
    requirements = find_requirements("deepspeed", str(tmp_path / "ds.json"))
    assert requirements is not None
    assert [each.exact_version for each in requirements.requirements] == ["0.17.2"]


def test_contradicting_files(tmp_path: Path) -> None:
    tmp_path.joinpath("requirements.txt").write_text("deepspeed==0.14.5\n")
    tmp_path.joinpath("requirements-dev.txt").write_text("deepspeed==0.16.4\n")
    requirements = find_requirements("deepspeed", str(tmp_path / "ds.json"))
    assert requirements is not None
    assert requirements.agreed_requirement is None
    assert len(requirements.requirements) == 2


def test_an_exact_pin_that_the_ranges_allow_is_what_all_agree_on(tmp_path: Path) -> None:
    tmp_path.joinpath("requirements.txt").write_text("deepspeed==0.14.5\n")
    tmp_path.joinpath("setup.py").write_text('install_requires=["deepspeed>=0.9.3"]\n')
    requirements = find_requirements("deepspeed", str(tmp_path / "ds.json"))
    assert requirements is not None
    assert requirements.agreed_requirement is not None
    assert requirements.agreed_requirement.shown_requirement.startswith("0.14.5 (")


def test_included_requirements_count(tmp_path: Path) -> None:
    (tmp_path / "deps").mkdir()
    (tmp_path / "train" / "conf").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "train" / "requirements.txt").write_text("torch\n-r ../deps/gpu.txt  # pinned\n")
    (tmp_path / "deps" / "gpu.txt").write_text("-r gpu.txt\n-c ../deps/versions.txt\ntransformers>=4.40\n")
    (tmp_path / "deps" / "versions.txt").write_text("-r gpu.txt\ndeepspeed==0.14.5\ntransformers==4.44.2\n")
    config = str(tmp_path / "train" / "conf" / "ds.json")
    found = find_requirements("deepspeed", config)
    assert found is not None
    assert found.agreed_requirement is not None
    assert (found.agreed_requirement.specifier, found.agreed_requirement.source.split("/")[-1]) == (
        "==0.14.5",
        "versions.txt:2",
    )
    assert pinned_consumer_version("transformers", config) == ("4.44.2", ANY)


def test_a_file_outside_of_the_repository_is_not_included(tmp_path: Path) -> None:
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    (tmp_path / "repository" / "requirements.txt").write_text("-r ../outside.txt\n")
    (tmp_path / "outside.txt").write_text("deepspeed==0.14.5\n")
    assert find_requirements("deepspeed", str(tmp_path / "repository" / "ds.json")) is None


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("transformers==4.44.2", "4.44.2"),
        ("transformers>=4.40,<=4.44.2", "4.44.2"),
        ("transformers~=4.44.0", "4.44.0"),
        ("transformers>=4.44", None),
        ("adapter-transformers==3.0", None),
        ("transformers==4.44.2\n# or\ntransformers==4.40.0", None),
    ],
)
def test_the_version_of_a_consumer(text: str, version: str | None, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(text)
    pinned = pinned_consumer_version("transformers", str(tmp_path / "ds.json"))
    assert (pinned and pinned[0]) == version

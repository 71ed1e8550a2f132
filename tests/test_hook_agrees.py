"""A repository of all kinds of files: the hook, run by the real pre-commit, and the command find the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from dsconfig.presets import PRESETS, text
from tests.test_hooks import ROOT, run
from tests.test_launchers import JOBS

WRONG = {
    "train_batch_size": 8,
    "zero_optimization": {"stage": 2, "overlap_com": True},
    "fp16": {"enabled": [1]},
}
AUTO = {"train_batch_size": "auto", "zero_optimization": {"stage": 3}, "optimizer": {"type": "Adm"}}
FOREIGN = (
    "package.json",
    "tokenizer_config.json",
    "neox.yml",
    ".github/workflows/ci.yml",
    "out/ds_config.json",
)


def files() -> dict[str, str]:
    """What stands in the repository, by path."""
    found = {f"presets/{name}.json": text(name, preset.releases[-1]) for name, preset in PRESETS.items()}
    found |= {f"jobs/{name.replace(' ', '-')}.yaml": yaml.safe_dump(job) for name, job in JOBS.items()}
    found |= {
        "ds/z.json": json.dumps(AUTO),
        "ds_config.json": json.dumps(WRONG),
        "zero3.json": json.dumps(WRONG),
    }
    found |= {"conf/plain.hjson": "zero_optimization: {stage: 9}\n", "conf/as.yaml": yaml.safe_dump(WRONG)}
    found |= {"old/ds_config.json": json.dumps(WRONG), "ds/acc.yaml": "distributed_type: NO\n"}
    found |= dict.fromkeys(FOREIGN, '{"name": "x", "fp16": true, "steps": 1}\n')
    return {**found, "dsconfig.toml": 'exclude = ["old"]\ntarget = "0.19.7"\n', ".gitignore": "/out/\n"}


def findings(out: str) -> set[str]:
    return set(re.findall(r"^\S+:\d+:\d+: DSC\d+.*$", out, re.MULTILINE))


def test_the_hook_and_the_command_agree(tmp_path: Path) -> None:
    folder, home, hooks = tmp_path / "user", tmp_path / "home", tmp_path / "hooks"
    for path in (folder, home, hooks):
        path.mkdir()
    table = (ROOT / ".pre-commit-hooks.yaml").read_text().replace("language: python", "language: system")
    (hooks / ".pre-commit-hooks.yaml").write_text(table)
    for name, content in files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    for path in (hooks, folder):
        run("git", "init", "-q", cwd=path, home=home)
    run("git", "add", "-A", cwd=hooks, home=home)
    run("git", "commit", "-qm", "hooks", cwd=hooks, home=home)
    _, revision = run("git", "rev-parse", "HEAD", cwd=hooks, home=home)
    chosen = [{"id": "dsconfig-check", "args": ["--output-format", "concise"]}]
    config = {"repos": [{"repo": str(hooks), "rev": revision.strip(), "hooks": chosen}]}
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    run("git", "add", "-A", cwd=folder, home=home)
    code, by_hook = run("pre-commit", "run", "--all-files", cwd=folder, home=home)
    assert code == 1, by_hook
    code, by_command = run("dsconfig", "check", "--output-format", "concise", cwd=folder, home=home)
    assert code == 1, by_command
    assert findings(by_hook) == findings(by_command) != set()
    named = {line.partition(":")[0] for line in findings(by_command)}
    assert {"ds_config.json", "zero3.json", "conf/plain.hjson", "conf/as.yaml", "ds/z.json"} <= named
    assert not {name for name in named if name.startswith(("old/", "out/", "presets/"))}

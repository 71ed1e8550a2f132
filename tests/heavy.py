"""Tests that `make test-fast` and `pytest --fast` leave out, and why. `make test` runs them all."""

from __future__ import annotations

from collections.abc import Mapping

SLOW = "takes minutes"
HEAVY: Mapping[str, str] = {
    "tests/agent": "needs torch, etcd, real processes",
    "tests/cli/test_conventions.py": SLOW,
    "tests/cli/test_elastic_manifest.py": "needs torch, torchx, Kubeflow",
    "tests/cli/test_outside.py": SLOW,
    "tests/editors": "needs node",
    "tests/fuzz": f"{SLOW}, needs torch",
    "tests/lsp/test_emacs.py": "needs Emacs",
    "tests/lsp/test_neovim.py": "needs Neovim",
    "tests/lsp/test_wire.py": SLOW,
    "tests/model/test_config_operations.py": "needs torch",
    "tests/model/test_editor.py": "needs pyright",
    "tests/model/test_odd_values.py": "needs torch",
    "tests/model/test_typing.py": "needs mypy, pyright",
    "tests/schema/test_agreement.py": SLOW,
    "tests/site": "needs mkdocs, node, zizmor",
    "tests/soak": "needs torch, etcd",
    "tests/launch/test_command_lines.py": "needs hydra-zen, jsonargparse, pydantic-settings, tyro",
    "tests/project/test_contributing.py": SLOW,
    "tests/project/test_hook_agrees.py": "needs pre-commit",
    "tests/project/test_hooks.py": "needs pre-commit",
    "tests/project/test_readme.py": "needs pre-commit",
    "tests/project/test_wheel.py": "needs hatchling",
}
"""Files and folders of tests, each with the reason."""

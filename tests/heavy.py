"""Tests that `make test-fast` and `pytest --fast` leave out, with what they need. `make test` runs them all."""

from __future__ import annotations

from collections.abc import Mapping

HEAVY: Mapping[str, str] = {
    "tests/agent": "torch, etcd, real processes",
    "tests/cli/test_elastic_manifest.py": "torch, torchx, Kubeflow",
    "tests/editors": "node",
    "tests/fuzz/test_numbers.py": "torch",
    "tests/lsp/test_emacs.py": "Emacs",
    "tests/lsp/test_neovim.py": "Neovim",
    "tests/model/test_composing.py": "torch",
    "tests/model/test_editor.py": "pyright",
    "tests/model/test_odd_values.py": "torch",
    "tests/model/test_typing.py": "mypy, pyright",
    "tests/site": "mkdocs, node, zizmor",
    "tests/soak": "torch, etcd",
    "tests/test_command_lines.py": "hydra-zen, jsonargparse, pydantic-settings, tyro",
    "tests/test_hook_agrees.py": "pre-commit",
    "tests/test_hooks.py": "pre-commit",
    "tests/test_readme.py": "pre-commit",
    "tests/test_wheel.py": "hatchling",
}
"""Files and folders, with the packages and programs that they need."""

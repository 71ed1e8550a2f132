"""`dsconfig lsp` where the extra is missing: one line, which says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("name", ["pygls", "cattrs"])
def test_what_it_needs_is_named(name: str) -> None:
    program = (
        f"import sys; sys.modules[{name!r}] = None; from dsconfig.cli import main; sys.exit(main(['lsp']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"dsconfig: error: `{name}` is not installed: pip install 'deepspeed-config[lsp]'\n"

"""An editor for each module, with a repository of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.lsp.client import SNIPPETS, Editor

Editors: TypeAlias = Callable[..., Editor]


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """An editor that knows snippets, and shows what commands say itself."""
    folder = tmp_path_factory.mktemp("workspace")
    (folder / ".git").mkdir()
    client = Editor(folder, SNIPPETS, commands="return")
    yield client
    assert client.quit() == 0


@pytest.fixture
def editors(tmp_path: Path) -> Iterator[Editors]:
    """Editors with capabilities and options of their own, in one repository."""
    (tmp_path / ".git").mkdir()
    started: list[Editor] = []

    def start(capabilities: dict[str, Any] | None = None, **options: Any) -> Editor:
        started.append(Editor(tmp_path, capabilities, **options))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.quit()

"""Half-typed text: cut at every place, and edited at random."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lsp.client import Editor, position
from tests.lsp.edits import TEXTS, Session, run


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_cut_anywhere_is_survived(editor: Editor, name: str) -> None:
    text = TEXTS[name]
    editor.open(name, text, name.rpartition(".")[2])
    for end in range(len(text)):
        editor.write(name, text[:end])
        place = position(text, end)
        assert isinstance(editor.on("completion", name, position=place)["items"], list)
        editor.on("hover", name, position=place)
        assert isinstance(editor.on("documentSymbol", name), list)
    editor.close(name)
    editor.aside.clear()


def test_random_edits_leave_the_server_as_it_was(tmp_path: Path) -> None:
    session = Session(tmp_path, seed=7)
    samples = run(session, 400)
    assert session.editor.quit() == 0
    assert samples[-1] < samples[len(samples) // 2] + 20_000

"""Random edits of several texts through one server: `python -m tests.lsp.edits --edits 10000 [--seed S]`.

After each edit something is asked about a random place. Now and then what was found is compared with what is
found in the same text when it is opened, and the memory of the process is read: it must not grow.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from tests.lsp.client import Editor, RefusedError, position

TEXTS = {
    "ds_config.json": '{\n "train_batch_size": 8,\n "zero_optimization": {"stage": 3}\n}\n',
    "ds_config.jsonc": '{\n // 😀\n "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}\n}\n',
    "ds_config.hjson": "{\n  zero_optimization: {\n    stage: 2 # why\n  }\n  bf16: {enabled: true}\n}\n",
    "ds.yaml": "zero_optimization:\n  stage: 2\n  offload_param:\n    device: cpu\nbf16: {enabled: true}\n",
    "acc.yaml": "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds_config.json\n",
}
"""Five files, each in a format of its own."""
PIECES = [
    *'{}[]:,"\'#/-\n\t ', "\r\n", '"auto"', "true", "null", "1e9", "😀", "\u2028", "\\u00e9", '"stage": 3, ',
    '"zero_optimization": {', '"bf16": {"enabld": true}', "stage: 1\n", " - x\n", "'''", "/*", "*/", "// x\n",
    '"$dsconfig": {"target": "0.16.9"}, ', "&a *a", "!!python/name:x", "a: &a [*a]", "$" * 40, "9" * 50, "\0",
]  # fmt: skip
ASKED = ("hover", "completion", "documentSymbol", "foldingRange", "inlayHint", "codeLens", "documentLink")
ASKED += ("definition", "prepareRename", "codeAction")
_LONGEST = 2000
_COMPARED = 100
"""Every so many edits all is found anew."""


class Session:
    """An editor in which someone types at random."""

    def __init__(self, folder: Path, seed: int) -> None:
        (folder / ".git").mkdir(exist_ok=True)
        self.folder, self.rng = folder, Random(seed)
        self.editor = Editor(folder)
        self.texts = dict(TEXTS)
        for name, text in TEXTS.items():
            self.editor.open(name, text, _language(name))

    def edit(self) -> None:
        """One edit, and one question."""
        rng, name = self.rng, self.rng.choice(list(self.texts))
        text = self.texts[name]
        start = rng.randint(0, len(text))
        end = min(len(text), start + rng.choice((0, 0, 0, 1, 3, 20)))
        while "\r\n" in (text[start - 1 : start + 1], text[end - 1 : end + 1]) and start > 0:
            start, end = start - 1, max(start - 1, end - 1)  # no position lies within a line end
        new = rng.choice(PIECES) if rng.random() < 0.8 else ""
        if len(text) > _LONGEST or rng.random() < 0.02:
            start, end, new = 0, len(text), TEXTS[name]
        place = {"start": _position(text, start), "end": _position(text, end)}
        self.texts[name] = text[:start] + new + text[end:]
        self.editor.change(name, {"range": place, "text": new})
        self.ask(name)

    def ask(self, name: str) -> None:
        """A question about a random place; whatever is answered, it is no error of the server's own."""
        text, method = self.texts[name], self.rng.choice(ASKED)
        at = _position(text, self.rng.randint(0, len(text)))
        more: dict[str, Any] = {"position": at}
        if method in ("codeAction", "inlayHint"):
            more = {"range": {"start": at, "end": at}, "context": {"diagnostics": []}}
        try:
            self.editor.on(method, name, **more)
        except RefusedError as error:
            raise AssertionError(f"{method} in {text!r} at {at}: {error}") from error

    def compare(self) -> None:
        """Diagnostics after many edits are the same as those of the resulting text."""
        name = self.rng.choice(list(self.texts))
        again = f"again_{name}"
        if name == "acc.yaml":
            return
        same = self.editor.write(name, self.texts[name])
        assert _codes(self.editor.open(again, self.texts[name], _language(name))) == _codes(same), self.texts[
            name
        ]
        self.editor.close(again)
        self.editor.aside.clear()

    def memory(self) -> int:
        """KiB that the server holds."""
        status = Path(f"/proc/{self.editor.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])


def _language(name: str) -> str:
    """A language of ours: that the text is a config holds, whatever becomes of it."""
    return f"deepspeed-{name.rpartition('.')[2]}"


def _position(text: str, offset: int) -> dict[str, int]:
    """The position of an offset, where lines end as the protocol says."""
    return position(text.replace("\r\n", " \n").replace("\r", "\n"), offset)


def _codes(estimate: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["code"], str(each["range"])) for each in estimate]


def run(session: Session, edits: int) -> list[int]:
    """So many edits; returns the memory after each tenth of them."""
    samples = []
    for number in range(1, edits + 1):
        session.edit()
        if number % _COMPARED == 0:
            session.compare()
        if number % max(1, edits // 10) == 0:
            samples.append(session.memory())
    return samples


def main() -> int:
    """Edit, and print what the process holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        session = Session(Path(folder), args.seed)
        samples = run(session, args.edits)
        code = session.editor.quit()
    print(f"{args.edits} edits of {len(TEXTS)} texts, KiB after each tenth: {', '.join(map(str, samples))}")
    return code


if __name__ == "__main__":
    sys.exit(main())

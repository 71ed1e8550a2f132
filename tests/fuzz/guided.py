"""Inputs led by coverage: atheris, which keeps each input that reaches new code and goes on from there.

`python -m tests.fuzz.guided NAME`, ended by `.fuzz/stop`. What is kept goes to `.fuzz/corpus`.
"""

from __future__ import annotations

import os
import sys
import time
from random import Random

import atheris  # type: ignore[import-untyped]

from tests.fuzz.record import FOLDER, Pace, Record, workshop


def main(name: str) -> None:
    """Run inputs until there is the sign to stop, and end the process: libFuzzer does not give it back."""
    corpus = FOLDER / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    with (
        workshop(),
        atheris.instrument_imports(include=["dsconfig", "elastic"]),
    ):
        from tests.fuzz import material
        from tests.fuzz.choices import HEADER, LARGEST

        spread = Random(time.time_ns())
        if not any(corpus.iterdir()):
            for number, seed in enumerate(material.seeds()):
                (corpus / f"seed-{number}").write_bytes(spread.randbytes(HEADER) + seed)
        dictionary = FOLDER / "words.dict"
        dictionary.write_text(
            "".join(f'"{_escaped(word)}"\n' for word in (*material.words(), *material.PIECES) if word)
        )
        run = Run(name)
        atheris.Setup(
            [
                sys.argv[0],
                f"-max_len={LARGEST + HEADER}",
                f"-dict={dictionary}",
                "-len_control=200",
                "-timeout=300",
                "-report_slow_units=300",
                f"-artifact_prefix={FOLDER}/",
                "-rss_limit_mb=0",
                "-verbosity=0",
                str(corpus),
            ],
            run.one,
            custom_mutator=_mutator,
        )
        atheris.Fuzz()


class Run:
    """One run of libFuzzer, which calls `one` for each input."""

    def __init__(self, name: str) -> None:
        self.record, self.pace = Record(), Pace(name)

    def one(self, data: bytes) -> None:
        self.record.trial(data, "led by coverage")
        if self.pace.is_due() and self.pace.ends(self.record):
            os._exit(0)


def _mutator(data: bytes, most: int, seed: int) -> bytes:
    """Half the inputs are damaged as libFuzzer does, half as one who knows the format."""
    from tests.fuzz import material
    from tests.fuzz.choices import HEADER

    spread = Random(seed)
    if spread.random() < 0.5 or len(data) < HEADER:
        return bytes(atheris.Mutate(data, most))
    header = data[:HEADER]
    if spread.random() < 0.3:
        at = spread.randrange(HEADER)
        header = header[:at] + spread.randbytes(1) + header[at + 1 :]
    return (header + material.mutate(data[HEADER:], spread))[:most]


def _escaped(word: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word.encode(errors="surrogatepass"))


if __name__ == "__main__":
    main(sys.argv[1])

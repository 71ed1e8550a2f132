"""Find the script that a command starts: `bash train.sh 4`, `srun ./train.sh`."""

from __future__ import annotations

import os
from collections.abc import Sequence

_STARTERS = frozenset(
    ("bash", "sh", "srun", "sbatch", "source", "exec", "nohup", "zsh", "qsub", "env", "time", "setsid")
)
"""Programs that start a script."""
_SCRIPT_SUFFIXES = (".sh", ".bash", ".slurm", ".sbatch")
_MAX_LEADING = 20
"""Number of leading words searched for the script that a command starts."""


def index_of_started_script(words: Sequence[str]) -> int | None:
    """Return the index of the script among a command's words, or None if it starts no script."""
    at = next((at for at, word in enumerate(words[:_MAX_LEADING]) if _is_script_name(word)), None)
    if at is None:
        return None
    programs = (os.path.basename(word) for word in words[:at] if _is_program_name(word))
    return at if all(program in _STARTERS for program in programs) else None


def _is_script_name(word: str) -> bool:
    return word.endswith(_SCRIPT_SUFFIXES) and not word.startswith("-")


def _is_program_name(word: str) -> bool:
    """Return whether a word may name a program, rather than be a flag or a flag's value."""
    return not word.startswith("-") and "=" not in word and not word.isdecimal()

"""Shell commands in files of other languages: recipes of make, and the command of an image.

The text keeps its lines, so that a command has the line number that it has in the file.
"""

from __future__ import annotations

import json
import re
import shlex

_MAKE_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)\s*(?::{0,3}=|\?=)\s*(.*)")
_MAKE_VARIABLE = re.compile(r"\$[({](\w+)[)}]")
_INSTRUCTION = re.compile(r"\s*(ENV|ARG|CMD|ENTRYPOINT)\s+(.*)", re.IGNORECASE | re.DOTALL)


def extract_shell_commands(name: str, text: str) -> str:
    """Return the shell commands of a script, a makefile or a Dockerfile."""
    base = name.rpartition("/")[2]
    if base.lower().endswith("makefile") or base.endswith(".mk"):
        return _makefile_recipes(text)
    if "dockerfile" in base.lower() or "containerfile" in base.lower():
        return _dockerfile_commands(text)
    return text


def _makefile_recipes(text: str) -> str:
    """Return the recipes of a makefile; each line runs in a shell of its own."""
    lines: list[str] = []
    continues = in_recipe = False
    for line in text.split("\n"):
        ends_open = line.rstrip("\r").endswith("\\")
        if line.startswith("\t") or (continues and in_recipe):
            body = line.strip("\r").lstrip("\t" if continues else "\t @-+")
            body = _MAKE_VARIABLE.sub(r"${\1}", body.replace("$$", "\0")).replace("\0", "$")
            is_first, in_recipe = not (continues and in_recipe), True
            comment = body.lstrip().startswith("#")
            lines.append("" if comment else f"{'( ' * is_first}{body}{' )' * (not ends_open)}")
        else:
            match = _MAKE_ASSIGNMENT.fullmatch(line.strip())
            in_recipe = False
            # A value with blanks or calls of functions is unknown to a shell, but plain words are not.
            is_plain = match is not None and not re.search(r"[$()#\\]", _MAKE_VARIABLE.sub("", match[2]))
            value = _MAKE_VARIABLE.sub(r"${\1}", match[2]) if match else ""
            quote = shlex.quote(value) if "$" not in value else f'"{value}"'
            lines.append(f"{match[1]}={quote}" if match and is_plain else "")
        continues = ends_open
    return "\n".join(lines)


def _dockerfile_commands(text: str) -> str:
    """Return the variables and the command of a Dockerfile; its build steps are left out."""
    lines: list[str] = []
    entry = ""
    pending, count = "", 0
    for line in text.split("\n"):
        if not pending and line.lstrip().startswith("#"):
            lines.append("")
            continue
        stripped = line.rstrip()
        pending += stripped.removesuffix("\\") + " "
        count += 1
        if stripped.endswith("\\"):
            continue
        match = _INSTRUCTION.fullmatch(pending.strip())
        command = ""
        if match is not None:
            kind, value = match[1].upper(), match[2].strip()
            if kind in ("ENV", "ARG"):
                assigned = value if "=" in value.split(maxsplit=1)[0] else "=".join(value.split(maxsplit=1))
                command = f"export {assigned}" if "=" in assigned else ""
            elif kind == "ENTRYPOINT":
                entry = command = _join_exec_form(value)
            else:
                # The words of CMD are the arguments of an entry point in exec form.
                command = (
                    f"{entry} {_join_exec_form(value)}".strip()
                    if value.startswith("[")
                    else _join_exec_form(value)
                )
        lines += [command, *[""] * (count - 1)]
        pending, count = "", 0
    return "\n".join(lines)


def _join_exec_form(value: str) -> str:
    """Convert an instruction in exec form, `["a", "b"]`, or shell form to a shell command."""
    if value.startswith("["):
        try:
            words = json.loads(value)
        except ValueError:
            return ""
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            return shlex.join(words)
        return ""
    return value

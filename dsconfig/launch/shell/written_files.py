"""Find the files that a script writes with here-documents, or from templates with `sed`, `cp` or `envsubst`."""

from __future__ import annotations

import re
from collections.abc import Collection

from dsconfig.core.json_types import NamedTuple
from dsconfig.launch.repository_files import BudgetExceededError
from dsconfig.launch.shell.parser import SimpleCommand
from dsconfig.launch.shell.variables import ShellVariables

_SED_SUBSTITUTION = re.compile(r"s([/|#,@])((?:(?!\1).)+)\1(.*)\1g?", re.DOTALL)
_MAX_EDITS = 100


class WrittenText(NamedTuple):
    """The text that a script writes to a file."""

    text: str
    is_literal: bool
    """Whether `$` is a plain character in the text, as after `<<'EOF'`."""


class EditedFile(NamedTuple):
    """A file that `sed`, `cp` or `envsubst` derives from another file."""

    template: str
    edits: tuple[tuple[str, str], ...]
    """Edits of the template, as pairs of a text and its replacement."""

    def apply_edits(self, template: str, max_length: int) -> str:
        """Return the template's text with all edits applied.

        Raises:
            BudgetExceededError: the result has more than `max_length` characters; seven edits can turn one character
                into 1 GB.
        """
        for old, new in self.edits:
            if len(template) + template.count(old) * (len(new) - len(old)) > max_length:
                raise BudgetExceededError
            template = template.replace(old, new)
        return template


class CommandRedirections(NamedTuple):
    """The redirections of a command, with their words expanded."""

    target: str
    """Output file of the command; empty if there is none."""
    bodies: tuple[str, ...]
    """Texts of the command's here-documents and here-strings."""
    source: str
    """Input file of the command; empty if there is none."""
    is_literal: bool
    """Whether the last here-document is literal because its delimiter is quoted."""


def expand_redirections(command: SimpleCommand, values: ShellVariables) -> CommandRedirections:
    """Expand the redirections of a command."""
    target, source, bodies = "", "", list[str]()
    is_literal = False
    for each in command.redirects:
        if each.body is not None:
            is_literal = each.is_quoted
            expanded = values.lexer.expand_quoted(each.body, values.variables)
            bodies.append(each.body if is_literal else expanded)
            continue
        word = "".join(values.lexer.expand_word(each.target, values.variables, split=False))
        if each.operator == "<<<":
            bodies.append(word)
        elif each.operator in (">", ">|", "&>", ">>"):
            target = word
        elif each.operator == "<":
            source = word
    return CommandRedirections(target, tuple(bodies), source, is_literal)


class OutputFiles:
    """The files that a script writes, by path as written in the script."""

    def __init__(self) -> None:
        self.documents: dict[str, WrittenText] = {}
        """Texts that the script writes, by path."""
        self.sed_outputs: dict[str, EditedFile] = {}
        """Files that the script creates from other files, by path."""
        self._piped: EditedFile | None = None
        """Output of the previous command in a pipeline."""

    def start_pipeline(self) -> None:
        """Forget the output of the previous pipeline."""
        self._piped = None

    def record_command_output(
        self,
        words: tuple[str, ...],
        redirected: CommandRedirections,
        values: ShellVariables,
        exported: Collection[str],
    ) -> None:
        """Record the file that a command writes."""
        name, target = words[0] if words else "", redirected.target
        if name in ("cat", "tee", "") and redirected.bodies:
            if name == "tee":
                target = next((word for word in words[1:] if not word.startswith("-")), target)
            self._record_text(target, WrittenText(redirected.bodies[-1], redirected.is_literal))
        elif name in ("echo", "printf") and target and words[-1].lstrip().startswith("{"):
            self._record_text(target, WrittenText(words[-1], is_literal=False))
        elif name in ("cp", "mv"):
            operands = [word for word in words[1:] if not word.startswith("-")]
            if len(operands) == 2:
                self.sed_outputs[operands[1]] = self._template_with_edits(operands[0], ())
        elif name == "sed":
            self._record_sed_command(words, redirected)
        elif name == "cat":
            self._record_filter_command(next(iter(words[1:]), redirected.source), (), target)
        elif name == "envsubst":
            self._record_filter_command(redirected.source, _envsubst_edits(values, exported), target)

    def _record_text(self, target: str, text: WrittenText) -> None:
        if target:
            self.documents[target] = text
            self.sed_outputs.pop(target, None)

    def _record_sed_command(self, words: tuple[str, ...], redirected: CommandRedirections) -> None:
        """Record a `sed` command such as `sed "s/A/1/" t.json > ds.json` or `sed -i "s/A/1/" ds.json`."""
        operands = [word for word in words[1:] if not word.startswith("-")]
        edits = tuple((each[2], each[3]) for each in map(_SED_SUBSTITUTION.fullmatch, operands) if each)
        files = [word for word in operands if not _SED_SUBSTITUTION.fullmatch(word)]
        source = files[-1] if files else redirected.source
        in_place = any(word.startswith(("-i", "--in-place")) for word in words[1:])
        self._record_filter_command(source, edits, source if in_place else redirected.target)

    def _record_filter_command(self, source: str, edits: tuple[tuple[str, str], ...], target: str) -> None:
        """Record a command that edits a file or the output of the preceding command in its pipeline."""
        previous, self._piped = self._piped, None
        if source:
            self._piped = self._template_with_edits(source, edits)
        elif previous is not None and len(previous.edits) < _MAX_EDITS:
            self._piped = EditedFile(previous.template, previous.edits + edits)
        if target and self._piped is not None:
            self.sed_outputs[target] = self._piped

    def _template_with_edits(self, source: str, edits: tuple[tuple[str, str], ...]) -> EditedFile:
        """Return a file with its edits, preceded by the earlier edits of the file it is derived from."""
        earlier = self.sed_outputs.get(source)
        return (
            EditedFile(source, edits)
            if earlier is None
            else EditedFile(earlier.template, earlier.edits + edits)
        )


def _envsubst_edits(values: ShellVariables, exported: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Return the replacements of exported variables that `envsubst` performs."""
    edits: tuple[tuple[str, str], ...] = ()
    for name in sorted(exported, key=len, reverse=True):  # `$NODES` before `$N`
        value = "".join(values.variables.get(name, ())[:1])
        edits += ((f"${{{name}}}", value), (f"${name}", value))
    return edits

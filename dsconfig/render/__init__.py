"""What was found, written for people or machines; `FORMATS` lists the output formats and their modules.

A renderer knows nothing of how a diagnostic came about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from dsconfig.core.diagnostic import Diagnostic, Effect
    from dsconfig.render.terminal import Style


class Text(Protocol):
    """What a renderer needs of a document."""

    @property
    def text(self) -> str:
        """The source; empty where there is none."""


class Target(Protocol):
    """What a renderer needs of the releases that were checked."""

    @property
    def text(self) -> str:
        """The releases, as the user wrote them."""

    @property
    def releases(self) -> Sequence[str]:
        """The releases, oldest first."""

    @property
    def origin(self) -> str:
        """Where the choice comes from, a word of `dsconfig.core.releases.Origin`."""

    @property
    def source(self) -> str:
        """The file that pins the releases; empty for any other origin."""


class Reader(Protocol):
    """What a renderer needs of who reads a config."""

    @property
    def name(self) -> str:
        """A consumer."""

    @property
    def why(self) -> str:
        """The evidence, as a clause."""

    @property
    def origin(self) -> str:
        """Where the evidence comes from, a word of `dsconfig.job.detect_consumer.Origin`."""

    @property
    def likely(self) -> bool:
        """Whether the evidence leaves others possible."""


class RulePage(Protocol):
    """What a renderer needs of a rule."""

    @property
    def title(self) -> str:
        """One line."""

    @property
    def doc(self) -> str:
        """The whole page, in Markdown."""

    @property
    def effect(self) -> Effect:
        """The usual effect of its findings."""


class Report(Protocol):
    """What a renderer needs of the result for one file."""

    @property
    def name(self) -> str:
        """The file's path, or a name in angle brackets."""

    @property
    def target(self) -> Target:
        """The releases that were checked."""

    @property
    def reader(self) -> Reader:
        """Who reads the config."""

    @property
    def why_not_config(self) -> str | None:
        """Why the file is not a DeepSpeed config; None where it is one."""

    @property
    def read_error(self) -> str | None:
        """Why nothing is known of the file; None where it was read."""

    @property
    def diagnostics(self) -> Sequence[Diagnostic]:
        """The findings, by place."""

    @property
    def document(self) -> Text | None:
        """The source, where there is one."""

    def edits(self, found: Diagnostic) -> Sequence[tuple[int, int, str]]:
        """The finding's fix: stretches of the source and what to put in their place."""

    def rule(self, code: str) -> RulePage | None:
        """The rule of this code."""


Renderer: TypeAlias = Callable[[Iterable[Report], Target, "Style"], Iterator[str]]

FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit")
"""Each is the module of this package that has a function `render`."""
TEXT = FORMATS[:2]
"""Those for people, which a summary may follow."""


def renderer(name: str) -> Renderer:
    """The renderer of this name. It takes reports as they come and yields text to be written at once."""
    render: Renderer = import_module(f"dsconfig.render.{name}").render
    return render

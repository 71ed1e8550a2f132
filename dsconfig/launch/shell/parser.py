"""Parse shell text into a syntax tree of commands with unexpanded words, pipelines, conditionals, loops and functions.

Nothing is evaluated. If no shell accepts the text, the tree has the commands that can be parsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from dsconfig.core.json_types import NamedTuple
from dsconfig.launch.shell.lexer import ShellLexer, ShellToken

_MAX_DEPTH = 40
"""Maximum nesting depth of compound commands; the keywords of deeper ones are treated as words."""


class Redirection(NamedTuple):
    """A redirection: its operator, its target as written, and its here-document."""

    operator: str
    target: str
    body: str | None = None
    is_quoted: bool = False
    """Whether the here-document is literal because its delimiter is quoted: `<<'EOF'`."""


class SimpleCommand(NamedTuple):
    """A command with its assignments and words as written."""

    offset: int
    words: tuple[str, ...]
    redirects: tuple[Redirection, ...] = ()


class Pipeline(NamedTuple):
    """Commands connected by `|`, each of which runs in a shell of its own."""

    stages: tuple[Node, ...]


class ListItem(NamedTuple):
    """A command in a list, with the operator before it: `&&`, `||` or `;`."""

    node: Node
    operator: Literal["&&", "||", ";"]
    is_background: bool = False


class CommandBlock(NamedTuple):
    """A list of commands: a script, a loop body, or a group in braces."""

    items: tuple[ListItem, ...]


class Subshell(NamedTuple):
    """Commands in parentheses, whose assignments do not affect the outer shell."""

    body: CommandBlock


class ConditionBranch(NamedTuple):
    """The condition and commands of an `if` or `elif`."""

    test: CommandBlock
    body: CommandBlock


class IfCommand(NamedTuple):
    """An `if` command with all its branches."""

    branches: tuple[ConditionBranch, ...]
    otherwise: CommandBlock | None


class CaseBranch(NamedTuple):
    """The patterns and commands of one branch of a `case`."""

    patterns: tuple[str, ...]
    body: CommandBlock


class CaseCommand(NamedTuple):
    """A `case` command with all its branches."""

    word: str
    branches: tuple[CaseBranch, ...]


class ForLoop(NamedTuple):
    """A `for` or `select` loop over `words`, or over the script's arguments if `words` is None."""

    variable: str
    words: tuple[str, ...] | None
    body: CommandBlock


class WhileLoop(NamedTuple):
    """A `while` or `until` loop, or a `for ((…))` loop with a counter."""

    test: CommandBlock
    body: CommandBlock
    is_until: bool = False


class ShellFunction(NamedTuple):
    """The definition of a shell function."""

    name: str
    body: Node


class ArithmeticCommand(NamedTuple):
    """An arithmetic command: `((…))`."""

    text: str


class TestCommand(NamedTuple):
    """A `[[ … ]]` test with its words as written."""

    words: tuple[str, ...]


class NegatedCommand(NamedTuple):
    """A negated command: `! command`."""

    node: Node


Node: TypeAlias = (
    "SimpleCommand | Pipeline | CommandBlock | Subshell | IfCommand | CaseCommand | ForLoop | WhileLoop"
    " | ShellFunction | ArithmeticCommand | TestCommand | NegatedCommand"
)


def condition_words(node: Node) -> str:
    """Return the words of a condition such as `[ -z "$N" ]` as written."""
    match node:
        case SimpleCommand() | TestCommand():
            return " ".join(node.words)
        case CommandBlock():
            return " ".join(condition_words(item.node) for item in node.items)
        case NegatedCommand():
            return f"! {condition_words(node.node)}"
        case Pipeline():
            return " ".join(map(condition_words, node.stages))
        case ArithmeticCommand():
            return node.text
    return ""


_CLOSERS = frozenset(("then", "elif", "else", "fi", "do", "done", "esac", "}"))
_BREAKS = frozenset((";", "\n", "&"))
_CASE_ENDS = frozenset((";;", ";&", ";;&"))


def parse_shell(lexer: ShellLexer) -> CommandBlock:
    """Parse the shell text of a lexer into a syntax tree.

    Raises:
        BudgetExceededError: reading the text exceeds the budget.
    """
    parser = _ShellParser(list(lexer.tokens()))
    items: list[ListItem] = []
    while not parser.is_at_end():
        items += parser.parse_block(frozenset()).items
        parser.skip_token()  # a closing keyword or bracket without an opening one
    return CommandBlock(tuple(items))


class _ShellParser:
    """Recursive descent parser for the tokens of a shell text."""

    def __init__(self, tokens: Sequence[ShellToken]) -> None:
        self._tokens = tokens
        self._at = self._depth = 0

    def is_at_end(self) -> bool:
        return self._at >= len(self._tokens)

    def skip_token(self) -> None:
        self._at += 1

    def _peek_token(self) -> ShellToken | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _is_operator(self, *texts: str) -> bool:
        token = self._peek_token()
        return token is not None and token.kind == "operator" and token.text in texts

    def _is_word(self, *texts: str) -> bool:
        token = self._peek_token()
        return token is not None and token.kind == "word" and token.text in texts

    def _accept_word(self, text: str) -> bool:
        if self._is_word(text):
            self._at += 1
            return True
        return False

    def _skip_line_ends(self) -> None:
        while self._is_operator("\n", ";"):
            self._at += 1

    def parse_block(self, closers: frozenset[str]) -> CommandBlock:
        """Parse commands up to a closing keyword or bracket, without consuming it."""
        items: list[ListItem] = []
        operator: Literal["&&", "||", ";"] = ";"
        while True:
            self._skip_line_ends()
            if (
                self.is_at_end()
                or self._is_operator(")", *_CASE_ENDS)
                or self._is_word(*(closers or _CLOSERS))
            ):
                return CommandBlock(tuple(items))
            before = self._at
            node = self._parse_pipeline()
            is_background = self._is_operator("&")
            if node is not None:
                items.append(ListItem(node, operator, is_background))
            operator = ";"
            if self._is_operator("&&", "||"):
                token = self._tokens[self._at]
                operator = "&&" if token.text == "&&" else "||"
                self._at += 1
            elif self._is_operator(*_BREAKS):
                self._at += 1
            elif self._at == before:
                self._at += 1  # an operator where no command can start

    def _parse_pipeline(self) -> Node | None:
        negated = False
        while self._is_word("!", "time"):
            negated ^= self._is_word("!")
            self._at += 1
        stages: list[Node] = []
        while True:
            node = self._parse_command()
            if node is not None:
                stages.append(node)
            if not self._is_operator("|", "|&"):
                break
            self._at += 1
            self._skip_line_ends()
        if not stages:
            return None
        result: Node = stages[0] if len(stages) == 1 else Pipeline(tuple(stages))
        return NegatedCommand(result) if negated else result

    def _parse_command(self) -> Node | None:
        token = self._peek_token()
        if token is None:
            return None
        if self._depth < _MAX_DEPTH:
            self._depth += 1
            node = self._parse_compound(token)
            self._depth -= 1
            if node is not None:
                return self._skip_redirections(node)
        return self._parse_simple_command()

    def _parse_compound(self, token: ShellToken) -> Node | None:
        if token.kind == "arithmetic":
            self._at += 1
            return ArithmeticCommand(token.text)
        if token.kind == "test":
            self._at += 1
            return TestCommand(token.words)
        if token.kind == "operator":
            return self._parse_subshell() if token.text == "(" else None
        match token.text:
            case "{":
                self._at += 1
                body = self.parse_block(frozenset("}"))
                self._accept_word("}")
                return body
            case "if":
                return self._parse_if()
            case "case":
                return self._parse_case()
            case "for" | "select":
                return self._parse_for()
            case "while" | "until":
                return self._parse_while(is_until=token.text == "until")
            case "function":
                return self._parse_function_with_keyword()
        return self._parse_function()

    def _parse_subshell(self) -> Node:
        self._at += 1
        body = self.parse_block(frozenset())
        while not self.is_at_end() and not self._is_operator(")"):
            self._at += 1  # a closing keyword without an opening one
            body = CommandBlock((*body.items, *self.parse_block(frozenset()).items))
        self._at += 1
        return Subshell(body)

    def _parse_if(self) -> Node:
        branches: list[ConditionBranch] = []
        otherwise: CommandBlock | None = None
        closers = frozenset(("then", "elif", "else", "fi"))
        while self._is_word("if", "elif"):
            self._at += 1
            test = self.parse_block(closers)
            self._accept_word("then")
            branches.append(ConditionBranch(test, self.parse_block(closers)))
        if self._accept_word("else"):
            otherwise = self.parse_block(closers)
        self._accept_word("fi")
        return IfCommand(tuple(branches), otherwise)

    def _parse_case(self) -> Node:
        self._at += 1
        token = self._peek_token()
        word = token.text if token is not None and token.kind == "word" else ""
        self._at += bool(word)
        self._skip_line_ends()
        self._accept_word("in")
        branches: list[CaseBranch] = []
        while True:
            self._skip_line_ends()
            if self.is_at_end() or self._accept_word("esac"):
                return CaseCommand(word, tuple(branches))
            patterns: list[str] = []
            while not self.is_at_end() and not self._is_operator(")", "\n"):
                token = self._tokens[self._at]
                if token.kind == "word":
                    patterns.append(token.text)
                self._at += 1
            self._at += 1
            body = self.parse_block(frozenset(("esac",)))
            branches.append(CaseBranch(tuple(patterns), body))
            if self._is_operator(*_CASE_ENDS) or self._is_operator(")"):
                self._at += 1

    def _parse_for(self) -> Node:
        self._at += 1
        token = self._peek_token()
        if token is not None and token.kind == "arithmetic":
            self._at += 1
            self._skip_line_ends()
            first, *steps = token.text.split(";")
            body = self._parse_loop_body()
            items = tuple(ListItem(ArithmeticCommand(step), ";") for step in steps[1:])
            loop = WhileLoop(
                CommandBlock((ListItem(ArithmeticCommand(steps[0] if steps else ""), ";"),)),
                CommandBlock((*body.items, *items)),
            )
            return CommandBlock((ListItem(ArithmeticCommand(first), ";"), ListItem(loop, ";")))
        variable = token.text if token is not None and token.kind == "word" else ""
        self._at += bool(variable)
        while self._is_operator("\n"):
            self._at += 1
        words: list[str] | None = None
        if self._accept_word("in"):
            words = []
            while (token := self._peek_token()) is not None and token.kind == "word":
                words.append(token.text)
                self._at += 1
        self._skip_line_ends()
        return ForLoop(variable, None if words is None else tuple(words), self._parse_loop_body())

    def _parse_loop_body(self) -> CommandBlock:
        closer = "}" if self._is_word("{") else "done"
        if not self._accept_word("{"):
            self._accept_word("do")
        body = self.parse_block(frozenset((closer,)))
        self._accept_word(closer)
        return body

    def _parse_while(self, *, is_until: bool) -> Node:
        self._at += 1
        test = self.parse_block(frozenset(("do", "done")))
        return WhileLoop(test, self._parse_loop_body(), is_until)

    def _parse_function_with_keyword(self) -> Node | None:
        after = self._tokens[self._at + 1 : self._at + 2]
        if not after or after[0].kind != "word":
            return None
        self._at += 2
        if self._is_operator("("):
            self._at += 1
            self._at += self._is_operator(")")
        return self._parse_function_body(after[0].text)

    def _parse_function(self) -> Node | None:
        here = self._tokens[self._at : self._at + 3]
        if len(here) < 3 or here[0].kind != "word":
            return None
        if any(each.kind != "operator" for each in here[1:]) or (here[1].text, here[2].text) != ("(", ")"):
            return None
        self._at += 3
        return self._parse_function_body(here[0].text)

    def _parse_function_body(self, name: str) -> Node:
        self._skip_line_ends()
        body = self._parse_command()
        return ShellFunction(name, CommandBlock(()) if body is None else body)

    def _parse_simple_command(self) -> Node | None:
        words: list[str] = []
        redirects: list[Redirection] = []
        offset = self._tokens[self._at].offset
        while (token := self._peek_token()) is not None:
            if token.kind == "word":
                words.append(token.text)
            elif token.kind == "redirect":
                redirects.append(Redirection(token.text, token.target, token.body, token.is_quoted))
            else:
                break
            self._at += 1
        return SimpleCommand(offset, tuple(words), tuple(redirects)) if words or redirects else None

    def _skip_redirections(self, node: Node) -> Node:
        """Skip the redirections of a compound command, but keep a here-document that is written to a file."""
        redirects: list[Redirection] = []
        offset = 0
        while (token := self._peek_token()) is not None and token.kind == "redirect":
            redirects.append(Redirection(token.text, token.target, token.body, token.is_quoted))
            offset = token.offset
            self._at += 1
        if not redirects:
            return node
        return CommandBlock((ListItem(SimpleCommand(offset, (), tuple(redirects)), ";"), ListItem(node, ";")))

"""Syntax tree of shell text: commands with their words as written, pipelines, conditions, loops and functions.

Nothing is evaluated. Text that no shell accepts gives the commands that can be read in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from dsconfig.core.json_types import NamedTuple
from dsconfig.launch.shell.lexer import Lexer, Token

_MAX_DEPTH = 40
"""Deepest nesting of compound commands; the keywords of deeper ones are read as words."""


class Redirect(NamedTuple):
    """A redirection: its operator, its target as written, and the text of a here-document."""

    operator: str
    target: str
    body: str | None = None
    is_quoted: bool = False
    """Whether the here-document is taken literally: `<<'EOF'`."""


class Simple(NamedTuple):
    """A command with its assignments and words as written."""

    offset: int
    words: tuple[str, ...]
    redirects: tuple[Redirect, ...] = ()


class Pipeline(NamedTuple):
    """Commands connected by `|`; each of them runs in a shell of its own."""

    stages: tuple[Node, ...]


class Item(NamedTuple):
    """A command of a list, and the operator behind the command before it: `&&`, `||`, or `;`."""

    node: Node
    operator: Literal["&&", "||", ";"]
    is_background: bool = False


class Block(NamedTuple):
    """A list of commands: a script, the body of a loop, or a group in braces."""

    items: tuple[Item, ...]


class Subshell(NamedTuple):
    """Commands in parentheses, whose assignments do not leave them."""

    body: Block


class Condition(NamedTuple):
    """An `if` or `elif` with its commands."""

    test: Block
    body: Block


class If(NamedTuple):
    """An `if` with its branches."""

    branches: tuple[Condition, ...]
    otherwise: Block | None


class CaseBranch(NamedTuple):
    """A branch of a `case`."""

    patterns: tuple[str, ...]
    body: Block


class Case(NamedTuple):
    """A `case` with its branches."""

    word: str
    branches: tuple[CaseBranch, ...]


class For(NamedTuple):
    """A `for` or `select` loop. `words` None: over the arguments of the script."""

    variable: str
    words: tuple[str, ...] | None
    body: Block


class While(NamedTuple):
    """A `while` or `until` loop, or a `for` loop with a counter."""

    test: Block
    body: Block
    is_until: bool = False


class Function(NamedTuple):
    """The definition of a function."""

    name: str
    body: Node


class Arithmetic(NamedTuple):
    """`((…))`."""

    text: str


class Test(NamedTuple):
    """`[[ … ]]` with its words as written."""

    words: tuple[str, ...]


class Negation(NamedTuple):
    """`! command`."""

    node: Node


Node: TypeAlias = (
    "Simple | Pipeline | Block | Subshell | If | Case | For | While | Function | Arithmetic | Test | Negation"
)


def describe(node: Node) -> str:
    """The words of a condition as written, for `[ -z "$N" ]` and the like."""
    match node:
        case Simple() | Test():
            return " ".join(node.words)
        case Block():
            return " ".join(describe(item.node) for item in node.items)
        case Negation():
            return f"! {describe(node.node)}"
        case Pipeline():
            return " ".join(map(describe, node.stages))
        case Arithmetic():
            return node.text
    return ""


_CLOSERS = frozenset(("then", "elif", "else", "fi", "do", "done", "esac", "}"))
_BREAKS = frozenset((";", "\n", "&"))
_CASE_ENDS = frozenset((";;", ";&", ";;&"))


def parse(lexer: Lexer) -> Block:
    """Parse the text of a lexer.

    Raises:
        SpentError: reading it exceeds the budget.
    """
    parser = _Parser(list(lexer.tokens()))
    items: list[Item] = []
    while not parser.is_at_end():
        items += parser.block(frozenset()).items
        parser.skip()  # a closing keyword or bracket without an opening one
    return Block(tuple(items))


class _Parser:
    """Recursive descent over tokens."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = self._depth = 0

    def is_at_end(self) -> bool:
        return self._at >= len(self._tokens)

    def skip(self) -> None:
        self._at += 1

    def _peek(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _is_operator(self, *texts: str) -> bool:
        token = self._peek()
        return token is not None and token.kind == "operator" and token.text in texts

    def _is_word(self, *texts: str) -> bool:
        token = self._peek()
        return token is not None and token.kind == "word" and token.text in texts

    def _accept_word(self, text: str) -> bool:
        if self._is_word(text):
            self._at += 1
            return True
        return False

    def _skip_lines(self) -> None:
        while self._is_operator("\n", ";"):
            self._at += 1

    def block(self, closers: frozenset[str]) -> Block:
        """Commands up to a closing keyword or bracket, which is not consumed."""
        items: list[Item] = []
        operator: Literal["&&", "||", ";"] = ";"
        while True:
            self._skip_lines()
            if (
                self.is_at_end()
                or self._is_operator(")", *_CASE_ENDS)
                or self._is_word(*(closers or _CLOSERS))
            ):
                return Block(tuple(items))
            before = self._at
            node = self._pipeline()
            is_background = self._is_operator("&")
            if node is not None:
                items.append(Item(node, operator, is_background))
            operator = ";"
            if self._is_operator("&&", "||"):
                token = self._tokens[self._at]
                operator = "&&" if token.text == "&&" else "||"
                self._at += 1
            elif self._is_operator(*_BREAKS):
                self._at += 1
            elif self._at == before:
                self._at += 1  # an operator where no command can start

    def _pipeline(self) -> Node | None:
        negated = False
        while self._is_word("!", "time"):
            negated ^= self._is_word("!")
            self._at += 1
        stages: list[Node] = []
        while True:
            node = self._command()
            if node is not None:
                stages.append(node)
            if not self._is_operator("|", "|&"):
                break
            self._at += 1
            self._skip_lines()
        if not stages:
            return None
        result: Node = stages[0] if len(stages) == 1 else Pipeline(tuple(stages))
        return Negation(result) if negated else result

    def _command(self) -> Node | None:
        token = self._peek()
        if token is None:
            return None
        if self._depth < _MAX_DEPTH:
            self._depth += 1
            node = self._compound(token)
            self._depth -= 1
            if node is not None:
                return self._with_redirects(node)
        return self._simple()

    def _compound(self, token: Token) -> Node | None:
        if token.kind == "arithmetic":
            self._at += 1
            return Arithmetic(token.text)
        if token.kind == "test":
            self._at += 1
            return Test(token.words)
        if token.kind == "operator":
            return self._subshell() if token.text == "(" else None
        match token.text:
            case "{":
                self._at += 1
                body = self.block(frozenset("}"))
                self._accept_word("}")
                return body
            case "if":
                return self._if()
            case "case":
                return self._case()
            case "for" | "select":
                return self._for()
            case "while" | "until":
                return self._while(is_until=token.text == "until")
            case "function":
                return self._function_with_keyword()
        return self._function()

    def _subshell(self) -> Node:
        self._at += 1
        body = self.block(frozenset())
        while not self.is_at_end() and not self._is_operator(")"):
            self._at += 1  # a closing keyword without an opening one
            body = Block((*body.items, *self.block(frozenset()).items))
        self._at += 1
        return Subshell(body)

    def _if(self) -> Node:
        branches: list[Condition] = []
        otherwise: Block | None = None
        closers = frozenset(("then", "elif", "else", "fi"))
        while self._is_word("if", "elif"):
            self._at += 1
            test = self.block(closers)
            self._accept_word("then")
            branches.append(Condition(test, self.block(closers)))
        if self._accept_word("else"):
            otherwise = self.block(closers)
        self._accept_word("fi")
        return If(tuple(branches), otherwise)

    def _case(self) -> Node:
        self._at += 1
        token = self._peek()
        word = token.text if token is not None and token.kind == "word" else ""
        self._at += bool(word)
        self._skip_lines()
        self._accept_word("in")
        branches: list[CaseBranch] = []
        while True:
            self._skip_lines()
            if self.is_at_end() or self._accept_word("esac"):
                return Case(word, tuple(branches))
            patterns: list[str] = []
            while not self.is_at_end() and not self._is_operator(")", "\n"):
                token = self._tokens[self._at]
                if token.kind == "word":
                    patterns.append(token.text)
                self._at += 1
            self._at += 1
            body = self.block(frozenset(("esac",)))
            branches.append(CaseBranch(tuple(patterns), body))
            if self._is_operator(*_CASE_ENDS) or self._is_operator(")"):
                self._at += 1

    def _for(self) -> Node:
        self._at += 1
        token = self._peek()
        if token is not None and token.kind == "arithmetic":
            self._at += 1
            self._skip_lines()
            first, *steps = token.text.split(";")
            body = self._loop_body()
            items = tuple(Item(Arithmetic(step), ";") for step in steps[1:])
            loop = While(
                Block((Item(Arithmetic(steps[0] if steps else ""), ";"),)), Block((*body.items, *items))
            )
            return Block((Item(Arithmetic(first), ";"), Item(loop, ";")))
        variable = token.text if token is not None and token.kind == "word" else ""
        self._at += bool(variable)
        while self._is_operator("\n"):
            self._at += 1
        words: list[str] | None = None
        if self._accept_word("in"):
            words = []
            while (token := self._peek()) is not None and token.kind == "word":
                words.append(token.text)
                self._at += 1
        self._skip_lines()
        return For(variable, None if words is None else tuple(words), self._loop_body())

    def _loop_body(self) -> Block:
        closer = "}" if self._is_word("{") else "done"
        if not self._accept_word("{"):
            self._accept_word("do")
        body = self.block(frozenset((closer,)))
        self._accept_word(closer)
        return body

    def _while(self, *, is_until: bool) -> Node:
        self._at += 1
        test = self.block(frozenset(("do", "done")))
        return While(test, self._loop_body(), is_until)

    def _function_with_keyword(self) -> Node | None:
        after = self._tokens[self._at + 1 : self._at + 2]
        if not after or after[0].kind != "word":
            return None
        self._at += 2
        if self._is_operator("("):
            self._at += 1
            self._at += self._is_operator(")")
        return self._function_body(after[0].text)

    def _function(self) -> Node | None:
        here = self._tokens[self._at : self._at + 3]
        if len(here) < 3 or here[0].kind != "word":
            return None
        if any(each.kind != "operator" for each in here[1:]) or (here[1].text, here[2].text) != ("(", ")"):
            return None
        self._at += 3
        return self._function_body(here[0].text)

    def _function_body(self, name: str) -> Node:
        self._skip_lines()
        body = self._command()
        return Function(name, Block(()) if body is None else body)

    def _simple(self) -> Node | None:
        words: list[str] = []
        redirects: list[Redirect] = []
        offset = self._tokens[self._at].offset
        while (token := self._peek()) is not None:
            if token.kind == "word":
                words.append(token.text)
            elif token.kind == "redirect":
                redirects.append(Redirect(token.text, token.target, token.body, token.is_quoted))
            else:
                break
            self._at += 1
        return Simple(offset, tuple(words), tuple(redirects)) if words or redirects else None

    def _with_redirects(self, node: Node) -> Node:
        """Skip the redirections of a compound command; a here-document written by it is kept."""
        redirects: list[Redirect] = []
        offset = 0
        while (token := self._peek()) is not None and token.kind == "redirect":
            redirects.append(Redirect(token.text, token.target, token.body, token.is_quoted))
            offset = token.offset
            self._at += 1
        if not redirects:
            return node
        return Block((Item(Simple(offset, (), tuple(redirects)), ";"), Item(node, ";")))

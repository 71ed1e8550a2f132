"""Makes the archive that a worker starts from; `build.mjs` runs this within Pyodide, whose bytecode it is.

The archive takes the place of Pyodide's own library. It holds what Pyodide loads to start, the checker's
verbs with all that they import, and the modules of the standard library that these ask for when they are
loaded; compiled, since a browser would else compile some hundred files at each start.
"""

from __future__ import annotations

import ast
import io
import json
import marshal
import sys
import zipfile
from collections.abc import Iterator, Mapping
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType
from typing import NamedTuple

LIBRARY = Path("/lib/python314.zip")
VERBS = ("check", "compat", "explain", "fix", "memory", "migrate", "resolve", "rules", "show")
PREFIXES = ("dsconfig.lsp.", "dsconfig.render.", "dsconfig.rules.")
NAMED = ("tomllib",)
"""What is found by name, which no import statement shows: packages with all their modules, and others."""
_NOWHERE, _UNITS = 0b1_1111_000, 8
"""An entry of a table of lines that names none, and the units of code it holds for (code_objects.md)."""
CODECS = ("ascii", "cp437", "latin_1", "unicode_escape", "utf_8", "utf_8_sig")
CODECS += tuple(f"utf_{bits}{end}" for bits in (16, 32) for end in ("", "_le", "_be"))
UNUSED = ("_pyrepl", "asyncio.proactor_events", "asyncio.windows_events", "bdb", "cmd", "code", "ctypes")
UNUSED += ("doctest", "dsconfig.lsp.server", "pdb", "unittest", "yaml.cyaml")
UNUSED += ("dsconfig.lsp.command_line", "dsconfig.model.to_json_value", "dsconfig.schema.sections")
"""What nobody here reaches: for other platforms, debuggers, tests, stdio, dicts of Python, or with compiled
packages."""
DOCUMENTED = ("_pyodide/", "pyodide/", "dsconfig/rules/")
"""Where docstrings are read: they are the pages of the rules, and Pyodide's own start parses its own."""
UNANNOTATED = ("dsconfig/", "elastic/")
"""Whose functions nobody asks for their types at run time; Python's library registers some by them."""


class Source(NamedTuple):
    """A module's file."""

    path: str
    code: bytes
    ours: bool
    """Whether imports within its functions count: of the standard library's own, few are ever reached."""

    @property
    def is_package(self) -> bool:
        """Whether it is the file of a package."""
        return self.path.endswith("/__init__.py")


def pack(roots: Mapping[str, str], entry: str) -> bytes:
    """The archive.

    Args:
        roots: the folders of the packages that are not Python's own, by their names.
        entry: the module that the worker calls, as code.
    """
    sources = {**_library(), "worker": Source("worker.py", entry.encode(), ours=True)}
    for package, folder in roots.items():
        sources |= _files(package, Path(folder))
    wanted = ["worker", *NAMED, *(f"dsconfig.cli.{verb}" for verb in VERBS)]
    wanted += [name for name in sources if name.startswith(PREFIXES)]
    wanted += [name for name in sys.modules if name in sources and not sources[name].ours]
    wanted += [f"encodings.{name}" for name in CODECS]
    modules = _closure(wanted, sources)
    data = [file for package, folder in roots.items() for file in _data(package, Path(folder), modules)]
    return _archive([sources[name] for name in sorted(modules)], data)


def _library() -> dict[str, Source]:
    with zipfile.ZipFile(LIBRARY) as archive:
        return {
            _name(path): Source(path, archive.read(path), ours=False)
            for path in archive.namelist()
            if path.endswith(".py")
        }


def _files(package: str, folder: Path) -> dict[str, Source]:
    found = {}
    for file in sorted(folder.rglob("*.py")):
        path = f"{package}/{file.relative_to(folder).as_posix()}"
        found[_name(path)] = Source(path, file.read_bytes(), ours=True)
    return found


def _data(package: str, folder: Path, modules: set[str]) -> Iterator[tuple[str, bytes]]:
    """The JSON files of modules of the same name, without white space."""
    for file in sorted(folder.rglob("*.json")):
        path = f"{package}/{file.relative_to(folder).as_posix()}"
        if path.removesuffix(".json").replace("/", ".") in modules:
            yield path, json.dumps(json.loads(file.read_bytes()), separators=(",", ":")).encode()


def _name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _closure(wanted: list[str], sources: Mapping[str, Source]) -> set[str]:
    """The modules wanted, and those that they import."""
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in seen or name not in sources or _is_unused(name):
            continue
        seen.add(name)
        source = sources[name]
        wanted += _imports(ast.parse(source.code), name, source)
        if package := name.rpartition(".")[0]:
            wanted.append(package)
    return seen


def _is_unused(name: str) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in UNUSED)


def _imports(node: ast.AST, name: str, source: Source) -> Iterator[str]:
    """The names that a piece of code may import, modules and others."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not source.ours:
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = name.split(".")[: len(name.split(".")) + source.is_package - node.level] if node.level else []
        base = ".".join([*above, *filter(None, [node.module])])
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _imports(child, name, source)


def _archive(sources: list[Source], data: list[tuple[str, bytes]]) -> bytes:
    """Bytecode of each file, not compressed one by one; most docstrings are left out."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, code, _ in sources:
            keeps = path.startswith(DOCUMENTED)
            tree = _Unannotated().visit(ast.parse(code)) if path.startswith(UNANNOTATED) else code
            made = _bare(compile(tree, path, "exec", dont_inherit=True, optimize=0 if keeps else 2))
            header = MAGIC_NUMBER + bytes(12)  # no flags, and no source to be older than
            archive.writestr(zipfile.ZipInfo(f"{path}c"), header + marshal.dumps(made))
        for path, content in data:
            archive.writestr(zipfile.ZipInfo(path), content)
    return buffer.getvalue()


class _Unannotated(ast.NodeTransformer):
    """Functions without the types of what they take and give."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Of functions within functions too."""
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """Leave the name."""
        node.annotation = None
        return node


def _bare(code: CodeType) -> CodeType:
    """The code without the places of its lines, which only tracebacks tell."""
    constants = tuple(_bare(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    long, rest = divmod(len(code.co_code) // 2, _UNITS)
    nowhere = bytes([_NOWHERE | _UNITS - 1]) * long + bytes([_NOWHERE | rest - 1] * bool(rest))
    return code.replace(co_consts=constants, co_linetable=nowhere)

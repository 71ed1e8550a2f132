"""Build the archive from which a worker starts; `build.mjs` runs this within Pyodide, for its bytecode.

The archive replaces Pyodide's own library. It contains the modules that Pyodide loads to start, the commands of
dsconfig with their imports, and the modules of the standard library that these import. Modules are compiled, since a
browser would otherwise compile hundreds of files at each start.
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
COMMANDS = ("check", "compat", "explain", "fix", "memory", "migrate", "resolve", "rules", "show")
PREFIXES = ("dsconfig.lsp.", "dsconfig.memory.", "dsconfig.render.", "dsconfig.rules.")
IMPORTED_BY_NAME = ("tomllib",)
"""Modules imported by name, which import statements do not show: packages with all their modules, and others."""
_NO_LINE, _ENTRY_UNITS = 0b1_1111_000, 8
"""Line table entry without a line, and its number of code units (code_objects.md)."""
CODECS = ("ascii", "cp437", "latin_1", "unicode_escape", "utf_8", "utf_8_sig")
CODECS += tuple(f"utf_{bits}{end}" for bits in (16, 32) for end in ("", "_le", "_be"))
EXCLUDED = ("_pyrepl", "asyncio.proactor_events", "asyncio.windows_events", "bdb", "cmd", "code", "ctypes")
EXCLUDED += ("doctest", "dsconfig.lsp.stdio_server", "pdb", "unittest", "yaml.cyaml")
EXCLUDED += ("dsconfig.lsp.lsp_command", "dsconfig.model.to_json_value", "dsconfig.schema.config_schema")
EXCLUDED += ("dsconfig.cli.shadowed_packages",)
"""Modules that are never used here: other platforms, debuggers, tests, stdio, installed distributions, or with
compiled extensions.
"""
WITH_DOCSTRINGS = ("_pyodide/", "pyodide/", "dsconfig/rules/")
"""Paths whose docstrings are kept: rule pages, and Pyodide's own startup, which parses its docstrings."""
WITHOUT_ANNOTATIONS = ("dsconfig/", "elastic/")
"""Paths whose annotations are removed; Python's library uses some of its own at run time."""


class Source(NamedTuple):
    """Source file of a module."""

    path: str
    code: bytes
    ours: bool
    """Whether imports within functions count; few of those in the standard library are ever reached."""

    @property
    def is_package(self) -> bool:
        """Whether it is the file of a package."""
        return self.path.endswith("/__init__.py")


def pack(roots: Mapping[str, str], entry: str) -> bytes:
    """Build the archive.

    Args:
        roots: directories of the packages outside of the standard library, by name.
        entry: source of the module that the worker calls.
    """
    sources = {**_library(), "worker": Source("worker.py", entry.encode(), ours=True)}
    for package, folder in roots.items():
        sources |= _files(package, Path(folder))
    modules = ["worker", *IMPORTED_BY_NAME, *(f"dsconfig.cli.{verb}" for verb in COMMANDS)]
    modules += [name for name in sources if name.startswith(PREFIXES)]
    modules += [name for name in sys.modules if name in sources and not sources[name].ours]
    modules += [f"encodings.{name}" for name in CODECS]
    packed = _closure(modules, sources)
    data = [file for package, folder in roots.items() for file in _data(package, Path(folder), packed)]
    return _archive([sources[name] for name in sorted(packed)], data)


def _library() -> dict[str, Source]:
    with zipfile.ZipFile(LIBRARY) as archive:
        return {
            _name(path): Source(path, archive.read(path), ours=False)
            for path in archive.namelist()
            if path.endswith(".py")
        }


def _files(package: str, folder: Path) -> dict[str, Source]:
    sources = {}
    for file in sorted(folder.rglob("*.py")):
        path = f"{package}/{file.relative_to(folder).as_posix()}"
        sources[_name(path)] = Source(path, file.read_bytes(), ours=True)
    return sources


def _data(package: str, folder: Path, modules: set[str]) -> Iterator[tuple[str, bytes]]:
    """The JSON files of modules of the same name, without white space."""
    for file in sorted(folder.rglob("*.json")):
        path = f"{package}/{file.relative_to(folder).as_posix()}"
        if path.removesuffix(".json").replace("/", ".") in modules:
            yield path, json.dumps(json.loads(file.read_bytes()), separators=(",", ":")).encode()


def _name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _closure(pending: list[str], sources: Mapping[str, Source]) -> set[str]:
    """Modules with all their imports."""
    modules: set[str] = set()
    while pending:
        name = pending.pop()
        if name in modules or name not in sources or _is_excluded(name):
            continue
        modules.add(name)
        source = sources[name]
        pending += _imports(ast.parse(source.code), name, source)
        if package := name.rpartition(".")[0]:
            pending.append(package)
    return modules


def _is_excluded(name: str) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in EXCLUDED)


def _imports(node: ast.AST, name: str, source: Source) -> Iterator[str]:
    """Names that a piece of code may import, modules and others."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not source.ours:
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        parent = (
            name.split(".")[: len(name.split(".")) + source.is_package - node.level] if node.level else []
        )
        base = ".".join([*parent, *filter(None, [node.module])])
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _imports(child, name, source)


def _archive(sources: list[Source], data: list[tuple[str, bytes]]) -> bytes:
    """Zip of bytecode, not compressed file by file; most docstrings are removed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, code, _ in sources:
            keeps_docstrings = path.startswith(WITH_DOCSTRINGS)
            tree = (
                _RemoveAnnotations().visit(ast.parse(code)) if path.startswith(WITHOUT_ANNOTATIONS) else code
            )
            bytecode = _without_lines(
                compile(tree, path, "exec", dont_inherit=True, optimize=0 if keeps_docstrings else 2)
            )
            header = MAGIC_NUMBER + bytes(12)  # no flags, no source time and size
            archive.writestr(zipfile.ZipInfo(f"{path}c"), header + marshal.dumps(bytecode))
        for path, content in data:
            archive.writestr(zipfile.ZipInfo(path), content)
    return buffer.getvalue()


class _RemoveAnnotations(ast.NodeTransformer):
    """Remove the annotations of functions."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Remove the return annotation, also of nested functions."""
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """Remove the annotation of a parameter."""
        node.annotation = None
        return node


def _without_lines(code: CodeType) -> CodeType:
    """Code without its line table, which only tracebacks use."""
    constants = tuple(_without_lines(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    entries, remainder = divmod(len(code.co_code) // 2, _ENTRY_UNITS)
    line_table = bytes([_NO_LINE | _ENTRY_UNITS - 1]) * entries + bytes(
        [_NO_LINE | remainder - 1] * bool(remainder)
    )
    return code.replace(co_consts=constants, co_linetable=line_table)

"""The docstring of a function or class, also where Python has dropped it (`python -OO`)."""

from __future__ import annotations


def docstring(documented: object) -> str:
    """The docstring with its indentation; read from the source where the interpreter keeps none.

    It is empty where there is neither.
    """
    text = getattr(documented, "__doc__", None)
    return text if isinstance(text, str) else _from_source(documented)


def _from_source(documented: object) -> str:
    import ast
    import inspect
    import textwrap

    try:
        source = textwrap.dedent(inspect.getsource(documented))  # type: ignore[arg-type]
    except (OSError, TypeError):  # only byte code is installed
        return ""
    body = ast.parse(source).body[0]
    if not isinstance(body, ast.FunctionDef | ast.ClassDef):
        return ""
    return ast.get_docstring(body, clean=False) or ""

"""Writes every generated file from the model: `python -m schema.generate` writes, `--check` compares.

Once is enough: the schemas are made from the table that the model gives, whatever stands in the file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from schema import names, table

ROOT = Path(__file__).resolve().parents[1]


def texts() -> dict[str, str]:
    """Every generated file by its path in the repository, with the text that the model gives it."""
    found: dict[str, str] = {}
    root = _made(found, "dsconfig.model.config", names.config())
    _made(found, "dsconfig.model._table", table.text(root.Config))
    _index(found)
    from schema import prose, typed

    found["dsconfig/model/_prose.py"] = prose.text(root.Config)
    found["dsconfig/model/dicts.py"] = typed.dicts(root.Config)
    beside, every = names.beside(root.Config), names.every(root.Config)
    found["dsconfig/model/__init__.pyi"] = typed.stub(root.Config, beside, every)
    found["dsconfig/model/__init__.py"] = names.package(root.Config)
    found["dsconfig/__init__.pyi"] = names.public(every)
    found["dsconfig/types.pyi"] = names.types(every)
    from dsconfig.schema import files

    return found | {f"schema/{name}": make() for name, make in files.texts().items()}


def _made(found: dict[str, str], name: str, text: str) -> ModuleType:
    """Add a module; whoever imports it from here on gets what this text says, whatever stands in its file."""
    assert name not in sys.modules, f"{name} was imported too early: its readers would not see what is new"
    path = f"{name.replace('.', '/')}.py"
    found[path] = text
    sys.modules[name] = module = ModuleType(name)
    exec(compile(text, path, "exec"), module.__dict__)
    return module


def _index(found: dict[str, str]) -> None:
    """Add the index of the rules. Their package, which reads it, begins with an empty one."""
    from dsconfig.evaluation.rule import register_index

    name = "dsconfig.rules._index"
    sys.modules[name] = ModuleType(name)
    sys.modules[name].RULES = ()  # type: ignore[attr-defined]
    from schema import rules

    text = rules.text()
    del sys.modules[name]
    register_index(_made(found, name, text).RULES)


def main() -> int:
    """Write the files, or with `--check` name the stale ones and return 1."""
    made = texts()
    stale = [name for name in {**made, **_kept()} if _read(ROOT / name) != made.get(name)]
    if "--check" in sys.argv[1:]:
        for name in stale:
            print(f"{name} is stale: run `make generate`")
        return 1 if stale else 0
    for name in stale:
        _write(ROOT / name, made.get(name))
    return 0


def _kept() -> dict[str, None]:
    """Schemas that are there, also those that nothing makes any more."""
    return {f"schema/{path.name}": None for path in sorted((ROOT / "schema").glob("*.json"))}


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _write(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
    else:
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

"""Write all generated files from the model and the rules.

`python -m schema.generate` writes the files, `--check` only names the stale ones. A second run changes nothing: each
generated module is executed in memory before anything imports it, so stale files have no influence.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from dsconfig.model.inference import InferenceConfig
from schema import class_modules, key_table

ROOT = Path(__file__).resolve().parents[1]
MODEL, RULES = "dsconfig/model/_generated", "dsconfig/rules/_generated"


def generate() -> dict[str, str]:
    """Return the text of every generated file by its path in the repository."""
    files = {f"{MODEL}/config.py": class_modules.config_module()}
    config = _execute("dsconfig.model._generated.config", files[f"{MODEL}/config.py"]).Config
    files[f"{MODEL}/__init__.py"] = key_table.render(config)
    _execute("dsconfig.model._generated", files[f"{MODEL}/__init__.py"], ROOT / MODEL)
    files[f"{MODEL}/inference.py"] = key_table.render_inference(config, InferenceConfig)
    _execute("dsconfig.model._generated.inference", files[f"{MODEL}/inference.py"])
    files[f"{RULES}/__init__.py"] = _rule_index()
    from schema import descriptions_module

    files[f"{MODEL}/descriptions.py"] = descriptions_module.render(config, InferenceConfig)
    _execute("dsconfig.model._generated.descriptions", files[f"{MODEL}/descriptions.py"])
    files[f"{MODEL}/classes.py"] = class_modules.render(config, InferenceConfig)
    _execute("dsconfig.model._generated.classes", files[f"{MODEL}/classes.py"])
    from dsconfig.schema.schema_files import schema_texts_by_file
    from schema import type_stubs

    files[f"{MODEL}/classes.pyi"] = type_stubs.class_stub(config, InferenceConfig)
    files[f"{MODEL}/dicts.py"] = type_stubs.typed_dicts(config, InferenceConfig)
    files[f"{MODEL}/root_sections.pyi"] = class_modules.root_sections_stub()
    return files | {f"schema/{name}": make_text() for name, make_text in schema_texts_by_file().items()}


def _execute(name: str, text: str, folder: Path | None = None) -> ModuleType:
    """Execute a generated module, so that later imports use its new text instead of the file.

    Args:
        name: dotted name of the module.
        text: its source.
        folder: the folder of the submodules, if the module is a package.
    """
    assert name not in sys.modules, f"{name} was imported before it was generated"
    sys.modules[name] = module = ModuleType(name)
    if folder is not None:
        module.__path__ = [str(folder)]
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def _rule_index() -> str:
    """Return the source of the rule index, which is generated while an empty index takes its place."""
    from dsconfig.evaluation.rule import register_index

    name = "dsconfig.rules._generated"
    sys.modules[name] = ModuleType(name)
    sys.modules[name].RULES = ()  # type: ignore[attr-defined]
    from schema import rule_index

    text = rule_index.render()
    del sys.modules[name]
    register_index(_execute(name, text).RULES)
    return text


def main() -> int:
    """Write the files, or with `--check`, list the stale ones and return 1."""
    texts = generate()
    stale = [path for path in {**texts, **_schema_files()} if _read(ROOT / path) != texts.get(path)]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path} is stale: run `make generate`")
        return 1 if stale else 0
    for path in stale:
        _write(ROOT / path, texts.get(path))
    return 0


def _schema_files() -> dict[str, None]:
    """Return the schema files on disk, including obsolete ones."""
    return {f"schema/{path.name}": None for path in sorted((ROOT / "schema").glob("*.json"))}


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _write(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

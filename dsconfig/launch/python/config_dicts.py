"""Find the DeepSpeed configs in a Python source, their consumers, and the values known only at run time."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.core.file_access import relative_path
from dsconfig.document import Document
from dsconfig.document.config_file_names import is_config_name, is_notebook_name
from dsconfig.document.located_tree import LocatedTree, shift_tree
from dsconfig.document.python_source import (
    PythonSourceText,
    has_hidden_entries,
    is_dict_expression,
    literal_keys_of_dict,
    value_of_literal_key,
)
from dsconfig.job.detect_consumer import ConfigOverwrite, ConsumerEvidence, consumer_suggested_by_content
from dsconfig.launch.config_references import find_consumer_in_repository
from dsconfig.launch.program_text import (
    ProgramText,
    UnreadableProgramError,
    decode_python_source,
    read_program_text,
)
from dsconfig.launch.python.calls_receiving_dict import consumer_of_argument
from dsconfig.launch.python.config_tree import (
    ChangedConfig,
    ConfigNodeBuilder,
    Position,
    SectionVariable,
    json_literal_tree,
    statements_setting_keys,
    variable_of_dict,
)
from dsconfig.launch.python.constant_expressions import ConstantEvaluator, json_root_keys, parse_json_tree
from dsconfig.launch.python.data_flow import ConfigReceiver, DataFlow, DictWrite
from dsconfig.launch.python.name_bindings import ANY, ModuleNames, last_dotted_name
from dsconfig.launch.python.syntax_trees import ParsedModule, ProgramRepository, keyword_argument
from dsconfig.launch.repository_files import repository_cache_key

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath

_WORDS = re.compile(
    rb"zero_optimization|train_micro_batch_size_per_gpu|train_batch_size|gradient_accumulation_steps"
)
"""Keys of which every source with a config contains at least one; searching for them is cheaper than parsing."""
_PREPARES = frozenset(("HfDeepSpeedConfig",))
"""Calls that prepare the loading of a model, whichever library trains the model."""
_EARLY_CALLS = _PREPARES | {"Init"}
"""Calls that precede the one that trains; the program may change the config in between."""
_BY_WEIGHT = ("transformers", "accelerate", "lightning", "deepspeed")
"""Consumers of a dict that several calls receive, most decisive first: the Trainer fills Accelerate's dict."""
_CONFIG_SUFFIXES = (".json", ".hjson")
_NAME = re.compile(
    r"(?i)(?:\w*_)?(?:ds|deepspeed|deep_speed|zero\d?)_?(?:\w*_)?(?:config|cfg|conf|params|dict)\w*"
)
_ROOT_KEYS = frozenset(
    {
        "activation_checkpointing",
        "bf16",
        "fp16",
        "gradient_accumulation_steps",
        "gradient_clipping",
        "optimizer",
        "scheduler",
        "steps_per_print",
        "train_batch_size",
        "train_micro_batch_size_per_gpu",
        "wall_clock_breakdown",
        "zero_allow_untested_optimizer",
        "zero_optimization",
    }
)
_SECTIONS = ("zero_optimization", "fp16", "bf16", "optimizer", "scheduler", "activation_checkpointing")
_NUMBERS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_UNIQUE_KEYS = frozenset({"train_micro_batch_size_per_gpu", "zero_optimization"})
"""Top-level keys that are found only in a DeepSpeed config."""
_SCHEMA_WORDS = frozenset(
    ("properties", "description", "anyOf", "oneOf", "$ref", "items", "help", "doc", "choices")
)
"""Keys of a JSON Schema, or of a table that documents settings."""
_TYPES = frozenset(("int", "float", "bool", "str", "dict", "list", "object", "Any", "Optional", "Union"))


class PythonConfig(NamedTuple):
    """A config in a Python source, with its unknown values and the code that changes it."""

    document: Document
    reader: ConsumerEvidence | None
    """Library that the source passes the config to, or None if the source does not show the library."""
    unknown: frozenset[KeyPath]
    """Paths of values known only at run time; a final `*` stands for every key that the object does not show."""
    places: dict[KeyPath, str]
    """Locations of the code that changes each path of the config, such as `train.py:12`."""
    reads: frozenset[KeyPath]
    """Keys of the config that the program looks up by name."""
    written_to: str = ""
    """Path of the file that the program writes the config to; empty if there is none, or its name is computed."""


def config_documents_in_source(data: bytes, path: str) -> list[Document]:
    """Return the configs in a Python source as documents; empty if the source cannot be read."""
    try:
        return [each.document for each in _decode_and_find_configs(data, path)]
    except UnreadableProgramError:
        return []


def why_source_unread(data: bytes, path: str) -> str | None:
    """Return a clause that says why a Python source cannot be searched for configs, or None if it can."""
    if not _WORDS.search(data):
        return None
    try:
        _decode_and_find_configs(data, path)
    except UnreadableProgramError as error:
        return str(error)
    return None


def _decode_and_find_configs(data: bytes, path: str) -> tuple[PythonConfig, ...]:
    if is_notebook_name(path):
        return _read_configs(_as_utf8_text(data), path)
    text, is_writable = decode_python_source(data)
    configs = _read_configs(text, path)
    for each in () if is_writable else configs:  # it would be written back as UTF-8
        each.document.reread = None
    return configs


def _as_utf8_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UnreadableProgramError(f"it is not UTF-8 ({error})") from None


def find_python_configs(text: str, name: str) -> tuple[PythonConfig, ...]:
    """Return the configs in a Python source, in source order; empty if it is not valid Python."""
    try:
        return _read_configs(text, name)
    except UnreadableProgramError:
        return ()


def _read_configs(text: str, name: str) -> tuple[PythonConfig, ...]:
    path = "" if name.startswith("<") or not name else os.path.abspath(name)
    result = _cached_configs(text, name, repository_cache_key(path))
    if isinstance(result, str):
        raise UnreadableProgramError(result)
    return result


@lru_cache(maxsize=32)
def _cached_configs(text: str, name: str, _: tuple[int, ...]) -> tuple[PythonConfig, ...] | str:
    """Return the configs in a Python source, or the reason why the source cannot be read."""
    try:
        program = read_program_text(text, name)
        source = PythonSourceText(program.text)
        return tuple(_PythonSource(program, source, name).find_configs())
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        return f"it is not valid Python for the version that runs dsconfig ({where}{error.msg})"
    except UnreadableProgramError as error:
        return str(error)
    except ValueError as error:
        return f"it cannot be parsed ({error})"
    except (RecursionError, MemoryError):
        return "it is nested too deep"


def config_of_document(document: Document) -> PythonConfig | None:
    """Return the config that a document represents, or None if the source no longer contains it."""
    root = document.root
    if root is None:
        return None
    number = document.cell and document.cell.number
    for each in find_python_configs(document.file_text, document.name):
        other = each.document
        if other.root and other.root.span == root.span and (other.cell and other.cell.number) == number:
            return each
    return None


def sibling_documents(document: Document, text: str | None = None) -> list[Document]:
    """Return all configs in a document's Python file, reading `text` instead of the saved file."""
    text = document.file_text if text is None else text
    return [each.document for each in find_python_configs(text, document.name)]


def _reread_config(document: Document, index: int, count: int, text: str) -> Document:
    """Return the same config from an edited text of its source; edits never reorder configs."""
    configs = find_python_configs(document.file_text_with(text), document.name)
    if len(configs) != count:
        raise ValueError("the edited source does not contain the same configs")
    return configs[index].document


def consumer_of_document(document: Document) -> ConsumerEvidence:
    """Return the library to which the source passes a config, or the most likely one if it shows none."""
    config = config_of_document(document)
    if config is not None and config.reader is not None:
        return config.reader
    content = consumer_suggested_by_content(document.value())
    if config is None or not config.written_to or document.name.startswith("<"):
        return content
    path = os.path.join(os.path.dirname(document.name), config.written_to)
    return find_consumer_in_repository(path, content) or content


def paths_unknown_before_run(document: Document) -> frozenset[KeyPath]:
    """Return the paths of values known only at run time; a final `*` stands for keys that the source does not show."""
    config = config_of_document(document)
    return frozenset() if config is None else config.unknown


def notes_on_document(document: Document) -> tuple[str, ...]:
    """Return a note if code elsewhere may change the whole config, otherwise an empty tuple."""
    config = config_of_document(document)
    place = None if config is None else config.places.get((ANY,))
    if place is None:
        return ()
    return (
        f"{document.name}: code at {place} may change any key of this dict, so its values are not checked",
    )


def is_key_read_by_program(document: Document, path: KeyPath) -> bool:
    """Return whether the program reads a key, or anything inside it, so that no fix may remove the key."""
    config = config_of_document(document)
    return config is not None and any(each[: len(path)] == path for each in config.reads)


def add_unknown_overwrites(
    document: Document, overwrite: Callable[[str, Json], ConfigOverwrite | None] | None
) -> Callable[[str, Json], ConfigOverwrite | None]:
    """Wrap `overwrite` so that keys whose values the source leaves unknown also count as overwritten."""
    config = config_of_document(document)
    unknown = sorted(config.unknown if config else (), key=len)
    line = document.position(document.root.span.start).line if document.root else 1
    location = f"{document.name}:{line}"

    def find_overwrite(path: str, data: Json) -> ConfigOverwrite | None:
        parts = tuple(path.split("."))
        for each in unknown:
            is_open = each[-1] == ANY
            prefix = each[:-1] if is_open else each
            if parts[: len(prefix)] == prefix and not (is_open and document.has_path(parts)):
                place = config.places.get(each, location) if config else location
                return ConfigOverwrite(path, place, absent_only=False)
        return None if overwrite is None else overwrite(path, data)

    return find_overwrite


class _ConfigCandidate(NamedTuple):
    """An expression that may be a config, together with its data flow."""

    value: ast.expr
    flow: DataFlow
    literal: ast.expr | None = None
    """String literal that contains the config as JSON text, or None if the config is a dict."""
    text: str = ""
    """JSON text in the string literal; empty if the config is a dict."""


class _PythonSource:
    """A parsed Python source that is searched for configs."""

    def __init__(self, program: ProgramText, text: PythonSourceText, name: str) -> None:
        self.program, self.text, self.name = program, text, name
        self.module = ParsedModule(name, tuple(ast.walk(text.parse_syntax_tree())))
        self.names: ModuleNames = self.module.names
        self.repository = ProgramRepository(name)
        self.constants = ConstantEvaluator(self.module, self.repository)

    # ------------------------------------------------------------ find configs

    def find_configs(self) -> Iterator[PythonConfig]:
        """Yield the configs in source order, without dicts that are nested in another config."""
        candidates: list[_ConfigCandidate] = []
        nested: set[ast.AST] = set()
        for value in self._candidate_dicts():
            if value not in nested and (candidate := self._make_candidate(value)):
                candidates.append(candidate)
                nested.update(ast.walk(value))
        candidates += self._json_text_candidates("loads")
        configs = [self._make_config(each) for each in candidates] + list(self._configs_in_written_files())
        # Nothing changes a text behind the call that writes it to a file.
        written = [self._make_config(each) for each in self._json_text_candidates("write", "write_text")]
        configs += [each._replace(unknown=frozenset()) for each in written]
        configs.sort(
            key=lambda each: (
                each.document.cell.number if each.document.cell else 0,
                _document_start(each.document),
            )
        )
        for index, each in enumerate(configs):
            each.document.reread = partial(_reread_config, each.document, index, len(configs))
            yield each

    def _json_text_candidates(self, *functions: str) -> Iterator[_ConfigCandidate]:
        """Yield the JSON configs in string literals that the program passes to functions that receive configs."""
        for call in self.names.calls:
            if last_dotted_name(call.func) not in functions or not call.args:
                continue
            literal = call.args[0]
            if isinstance(literal, ast.Name):
                literal = self.constants.only_binding_of(literal) or literal
            if isinstance(literal, ast.Constant) and isinstance(literal.value, str):
                keys = json_root_keys(literal.value)
                flow = DataFlow(
                    self.repository, partial(consumer_of_argument, self.repository)
                ).follow_values(self.module, call)
                if flow.receivers or (len(_ROOT_KEYS & keys) > 1 and not _UNIQUE_KEYS.isdisjoint(keys)):
                    yield _ConfigCandidate(call, flow, literal, literal.value)

    def _configs_in_written_files(self) -> Iterator[PythonConfig]:
        """Yield the configs that notebook cells write to files."""
        for file in self.program.written:
            text = file.cell.text
            written = text[file.start : file.end]
            keys = json_root_keys(written)
            if file.path.endswith(_CONFIG_SUFFIXES) and len(_ROOT_KEYS & keys) > (
                not is_config_name(file.path)
            ):
                document = Document(self.name, text, "json", parse_json_tree(written, file.start))
                document.cell = file.cell
                if document.root is not None:
                    yield PythonConfig(document, None, frozenset(), {}, frozenset(), file.path)

    def _candidate_dicts(self) -> list[ast.expr]:
        """Return the dicts that may be configs, in source order, outer dicts first."""
        passed = {id(each) for call in self.names.calls for each in self._dicts_passed_to_call(call)}
        dicts = [
            node
            for node in self.module.nodes
            if isinstance(node, ast.expr)
            and is_dict_expression(node)
            and (id(node) in passed or not _ROOT_KEYS.isdisjoint(self._keys_of_dict(node)))
        ]
        return sorted(dicts, key=lambda each: (each.lineno, each.col_offset))

    def _dicts_passed_to_call(self, call: ast.Call) -> Iterator[ast.expr]:
        """Yield the nonempty dicts that a call receives as a config, directly or through a variable."""
        arguments: list[tuple[int | str, ast.expr]] = list(enumerate(call.args))
        arguments += [(each.arg or "", each.value) for each in call.keywords]
        for key, argument in arguments:
            if consumer_of_argument(self.repository, self.module, call, key) is not None:
                values = [argument]
                if isinstance(argument, ast.Name):
                    values = [
                        each.value for each in self.names.bindings_of_name(argument) if each.value is not None
                    ]
                # The program fills an empty dict later.
                yield from (
                    value for value in values if is_dict_expression(value) and self._keys_of_dict(value)
                )

    def _make_candidate(self, value: ast.expr) -> _ConfigCandidate | None:
        """Return a dict with its data flow, or None if the dict cannot be a config."""
        if self._updates_batch(value):
            return None
        flow = self._follow_value(value)
        if flow.receivers:
            return _ConfigCandidate(value, flow)
        literal_keys, keys = literal_keys_of_dict(value), self._keys_of_dict(value)
        count = len(_ROOT_KEYS.intersection(keys))
        # Arguments of a program that are named like the batch keys stand among many of its own. Alone they are those
        # of Accelerate's `deepspeed_plugin.deepspeed_config_process(**kwargs)`.
        has_keys = count > 1 and ("zero_optimization" in keys or count * 2 > len(keys))
        has_keys = has_keys and not set(keys) <= set(_NUMBERS)
        has_keys = has_keys and not _UNIQUE_KEYS.isdisjoint(keys)
        is_named = not _ROOT_KEYS.isdisjoint(literal_keys) and self._is_named_like_config(value)
        if is_named or has_keys:
            return _ConfigCandidate(value, flow) if _has_config_values(value) else None
        return None

    def _updates_batch(self, value: ast.expr) -> bool:
        """Return whether a dict only updates the batch sizes of another config, as in `ds_config.update({...})`."""
        parent = self.names.parents.get(value)
        is_update = isinstance(parent, ast.Call) and last_dotted_name(parent.func) == "update"
        return is_update and set(literal_keys_of_dict(value)) <= set(_NUMBERS)

    def _keys_of_dict(self, value: ast.expr) -> list[str]:
        """Return the keys of a dict, from its literal and from statements that set keys later."""
        statements = statements_setting_keys(variable_of_dict(self.names, value), _ROOT_KEYS)
        return [*literal_keys_of_dict(value), *(each.path[0] for each in statements)]

    def _is_named_like_config(self, value: ast.expr) -> bool:
        """Return whether a dict is assigned to a variable with a name typical of configs, such as `ds_config`."""
        node: ast.AST = value
        parent = self.names.parents.get(node)
        # `ds_config = BASE | {...}`, and `ds_config = {...} if fp16 else {...}`
        while isinstance(parent, ast.BinOp | ast.IfExp | ast.BoolOp):
            node, parent = parent, self.names.parents.get(parent)
        targets: list[ast.expr] = []
        if isinstance(parent, ast.Assign):
            targets = parent.targets
        elif isinstance(parent, ast.AnnAssign | ast.NamedExpr):
            targets = [parent.target]
        return any(_NAME.fullmatch(last_dotted_name(target)) for target in targets)

    # ------------------------------------------------------------ build documents

    def _make_config(self, candidate: _ConfigCandidate) -> PythonConfig:
        value, flow, literal, json_text = candidate
        nodes = ConfigNodeBuilder(
            self.text, self.names, self.constants, partial(self._is_in_same_cell, value), self.module
        )
        if literal is None:
            root = nodes.build_node(value)
            tree = LocatedTree(root, (), tuple(nodes.comments))
        else:
            tree = json_literal_tree(self.text, literal, json_text)
            assert tree.root is not None
            root = tree.root
        changed = ChangedConfig(root)
        reader = self._consumer_among_receivers(flow.receivers)
        written_to = self._written_to(flow)
        if reader is None and not written_to:
            changed.unknown.add((ANY,))  # the dict may be only part of the config that the program passes on
        changed.unknown |= nodes.open_paths
        for path in nodes.overwritten:
            changed.make_unknown(path, "")
        for section in (SectionVariable((), value), *nodes.sections):
            section_flow = self._follow_value(section.value, is_section=True) if section.path else flow
            for write in self._writes_before_use(value, section_flow, flow.receivers):
                if write.node not in nodes.writes:
                    changed.apply_write(write, self._shown_location(write.module, write.node), section.path)
        start, cell = self.program.cell_at(root.span.start)
        tree = shift_tree(tree._replace(root=root._replace(value=changed.value)), -start)
        text = self.text.text if cell is None else cell.text
        document = Document(self.name, text, "python" if literal is None else "json", tree, embedded_at=())
        document.cell = cell
        unknown, places = frozenset(changed.unknown), changed.places
        return PythonConfig(document, reader, unknown, places, frozenset(flow.reads), written_to)

    def _written_to(self, flow: DataFlow) -> str:
        """Return the path to which the program writes a dict as JSON; empty if there is no path or more than one."""
        paths = {self._path_of_dump(call) for module, call in flow.dumps if module is self.module}
        return paths.pop() if len(paths) == 1 else ""

    def _path_of_dump(self, call: ast.Call) -> str:
        """Return the path of the file to which `json.dump(x, file)` or a similar call writes."""
        target: ast.expr | None = call.args[1] if len(call.args) > 1 else keyword_argument(call, "fp")
        if last_dotted_name(call.func) == "dumps":
            parent = self.names.parents.get(call)
            function = parent.func if isinstance(parent, ast.Call) and call in parent.args else None
            is_write = isinstance(function, ast.Attribute) and function.attr in ("write", "write_text")
            target = function.value if is_write and isinstance(function, ast.Attribute) else None
        if isinstance(target, ast.Name):  # `with open(path, "w") as target`, `target = open(path, "w")`
            bindings = self.names.bindings_of_name(target)
            item = self.names.parents.get(bindings[0].node) if len(bindings) == 1 else None
            target = (
                item.context_expr
                if isinstance(item, ast.withitem)
                else bindings[0].value
                if bindings
                else None
            )
        if (
            isinstance(target, ast.Call)
            and last_dotted_name(target.func) == "open"
            and isinstance(target.func, ast.Attribute)
        ):
            target = target.func.value if isinstance(target.func.value, ast.Call) else target
        if (
            not isinstance(target, ast.Call)
            or last_dotted_name(target.func) not in ("open", "Path")
            or not target.args
        ):
            return ""
        path = self.constants.evaluate_constant(target.args[0])
        return path if isinstance(path, str) and path.endswith(_CONFIG_SUFFIXES) else ""

    def _is_in_same_cell(self, value: ast.expr, other: ast.expr) -> bool:
        """Return whether two expressions are in the same notebook cell; always true for Python source files."""
        cells = [self.program.cell_at(self.text.span_of_node(each).start)[0] for each in (value, other)]
        return cells[0] == cells[1]

    def _writes_before_use(
        self, value: ast.expr, flow: DataFlow, receivers: list[ConfigReceiver]
    ) -> Iterator[DictWrite]:
        """Yield the writes to a dict that may run before the last call that receives the dict."""
        variable = variable_of_dict(self.names, value)
        used_at: Position | None = None
        if variable is not None and flow.receivers == receivers:
            calls = [
                None if each.module is not self.module else variable.position_in_block(each.call)
                for each in receivers
            ]
            positions = [each for each in calls if each is not None]
            is_early = all(
                isinstance(each.call, ast.Call) and last_dotted_name(each.call.func) in _EARLY_CALLS
                for each in receivers
            )
            used_at = None if is_early or len(positions) < len(calls) else max(positions)
        for write in flow.writes:
            at = None if used_at is None or variable is None else variable.position_in_block(write.node)
            if at is None or used_at is None or at <= used_at:
                yield write

    def _follow_value(self, value: ast.expr, *, is_section: bool = False) -> DataFlow:
        """Return the data flow of an expression's value."""
        return DataFlow(
            self.repository,
            partial(consumer_of_argument, self.repository),
            partial(_is_scalar_at_path, value),
            is_section=is_section,
        ).follow_values(self.module, value)

    def _shown_location(self, module: ParsedModule, node: ast.AST) -> str:
        """Return the location of code as shown in messages: `train.py:12`, or `train.ipynb:cell 3:12` in a notebook."""
        line = getattr(node, "lineno", 1)
        if module is self.module and self.program.cells and isinstance(node, ast.expr):
            offset = self.text.span_of_node(node).start
            start, cell = self.program.cell_at(offset)
            if cell is not None:
                line = cell.text.count("\n", 0, offset - start) + 1
                return f"{_format_key_path(module.path)}:cell {cell.number}:{line}"
        return f"{_format_key_path(module.path)}:{line}"

    def _consumer_among_receivers(self, receivers: list[ConfigReceiver]) -> ConsumerEvidence | None:
        """Return the library that receives the config; its evidence mentions other receivers."""
        why: dict[str, str] = {}
        prepared: dict[str, str] = {}
        for each in receivers:
            node = each.call.func if isinstance(each.call, ast.Call) else each.call
            name = ast.unparse(node)
            place = self._shown_location(each.module, each.call)
            reasons = prepared if name.rpartition(".")[2] in _PREPARES else why
            reasons.setdefault(each.consumer, f"{place} passes it to `{name}`")
        if not why and not prepared:
            return None
        names = [name for name in _BY_WEIGHT if name in (why or prepared)]
        if not names:
            return None
        first = names[0]
        is_sure = bool(why) and len(names) == 1
        others = () if why else tuple(name for name in _BY_WEIGHT if name not in (first, "lightning"))
        return ConsumerEvidence(
            first, (why or prepared)[first], "content", likely=not is_sure, others=tuple(names[1:]) or others
        )


def _has_config_values(value: ast.expr) -> bool:
    """Return whether the values of a dict look like those of a config, rather than of a JSON Schema or a help table."""
    items = [value_of_literal_key(value, key) for key in literal_keys_of_dict(value)]
    constants = [item.value for item in items if isinstance(item, ast.Constant)]
    strings = [each for each in constants if isinstance(each, str)]
    if len(items) == len(strings) > 1 and "auto" not in strings:
        return False
    for key in literal_keys_of_dict(value):
        item = value_of_literal_key(value, key)
        if isinstance(item, ast.Name) and item.id in _TYPES:
            return False
        if key in _SECTIONS and isinstance(item, ast.JoinedStr | ast.List | ast.Tuple):
            return False
        if key in (*_SECTIONS, *_NUMBERS) and isinstance(item, ast.Constant) and _is_prose(item.value):
            return False
        if item is not None and is_dict_expression(item):
            inner = [value_of_literal_key(item, each) for each in literal_keys_of_dict(item)]
            texts = [each.value for each in inner if isinstance(each, ast.Constant)]
            if not _SCHEMA_WORDS.isdisjoint(literal_keys_of_dict(item)) or (
                texts and all(map(_is_prose, texts))
            ):
                return False
    return True


def _is_prose(value: object) -> bool:
    """Return whether a value is a string of several words, such as a description."""
    return isinstance(value, str) and " " in value.strip() and not value.strip().startswith(("$", "{", "<"))


def _document_start(document: Document) -> int:
    return document.root.span.start if document.root else 0


def _is_scalar_at_path(root: ast.expr, path: tuple[str, ...]) -> bool:
    """Return whether a dict literal has a scalar at a path, which cannot be modified in place."""
    value: ast.expr | None = root
    for key in path:
        if value is None or not is_dict_expression(value) or has_hidden_entries(value):
            return False
        value = value_of_literal_key(value, key)
    return isinstance(value, ast.Constant)


def _format_key_path(path: str) -> str:
    return relative_path(path) if os.path.isabs(path) else path

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
from dsconfig.job.consumers import INFERENCE
from dsconfig.job.detect_consumer import (
    ConfigOverwrite,
    ConsumerEvidence,
    consumer_suggested_by_content,
    inference_root_keys,
)
from dsconfig.launch.config_references import find_consumer_in_repository
from dsconfig.launch.program_text import (
    ProgramText,
    UnreadableProgramError,
    decode_python_source,
    read_program_text,
)
from dsconfig.launch.python.calls_receiving_dict import UNPACKED, consumer_of_argument
from dsconfig.launch.python.config_like_dicts import (
    BATCH_KEYS,
    CONFIG_NAME,
    ROOT_KEYS,
    UNIQUE_KEYS,
    has_config_values,
)
from dsconfig.launch.python.config_tree import (
    ChangedConfig,
    ConfigNodeBuilder,
    Position,
    SectionVariable,
    json_literal_tree,
    statements_setting_keys,
    variable_of_dict,
)
from dsconfig.launch.python.constant_expressions import (
    CONFIG_SUFFIXES,
    ConstantEvaluator,
    json_root_keys,
    parse_json_tree,
)
from dsconfig.launch.python.data_flow import ConfigReceiver, DataFlow, DictWrite
from dsconfig.launch.python.inference_calls import InferenceArguments, InferenceCall, inference_calls
from dsconfig.launch.python.name_bindings import ANY, ModuleNames, last_dotted_name
from dsconfig.launch.python.syntax_trees import ParsedModule, ProgramRepository
from dsconfig.launch.repository_files import repository_cache_key

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath

_WORDS = re.compile(
    rb"zero_optimization|train_micro_batch_size_per_gpu|train_batch_size|gradient_accumulation_steps|"
    rb"init_inference|DeepSpeedInferenceConfig"
)
"""Words of which every source with a config contains at least one; searching for them is cheaper than parsing."""
_PREPARES = frozenset(("HfDeepSpeedConfig",))
"""Calls that prepare the loading of a model, whichever library trains the model."""
_EARLY_CALLS = _PREPARES | {"Init"}
"""Calls that precede the one that trains; the program may change the config in between."""
_BY_WEIGHT = ("transformers", "accelerate", "lightning", "deepspeed")
"""Consumers of a dict that several calls receive, most decisive first: the Trainer fills Accelerate's dict."""


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
    arguments: InferenceArguments | None = None
    """Arguments of the call of `init_inference` that the config belongs to, or None if it belongs to no single call."""


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
    call: InferenceCall | None = None
    """Call whose keyword arguments belong to the config, or None if there are none."""


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
        candidates = list(self._add_inference_calls(candidates))
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

    def _add_inference_calls(self, candidates: list[_ConfigCandidate]) -> Iterator[_ConfigCandidate]:
        """Yield the candidates with the calls of `init_inference`, each with its dict if no other call receives it."""
        calls = {
            call: InferenceCall(call, self.constants)
            for call in inference_calls(self.repository, self.module)
        }
        for candidate in candidates:
            received = [each.call for each in candidate.flow.receivers]
            is_only = sum(each.call in received for other in candidates for each in other.flow.receivers) == 1
            call = calls.get(received[0]) if is_only and isinstance(received[0], ast.Call) else None
            if call and self._is_in_same_cell(candidate.value, call.call):
                if candidate.literal is None or not call.keywords:
                    del calls[call.call]  # JSON text and keyword arguments stay two configs
                yield candidate._replace(call=call)
            else:
                yield candidate
        for call in calls.values():
            if call.has_arguments:
                flow = DataFlow(self.repository, partial(consumer_of_argument, self.repository))
                flow.receivers.append(ConfigReceiver(INFERENCE, self.module, call.call))
                yield _ConfigCandidate(call.call, flow, call=call)

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
                if flow.receivers or (len(ROOT_KEYS & keys) > 1 and not UNIQUE_KEYS.isdisjoint(keys)):
                    yield _ConfigCandidate(call, flow, literal, literal.value)

    def _configs_in_written_files(self) -> Iterator[PythonConfig]:
        """Yield the configs that notebook cells write to files."""
        for file in self.program.written:
            text = file.cell.text
            written = text[file.start : file.end]
            keys = json_root_keys(written)
            if file.path.endswith(CONFIG_SUFFIXES) and len(ROOT_KEYS & keys) > (
                not is_config_name(file.path)
            ):
                document = Document(self.name, text, "json", parse_json_tree(written, file.start))
                document.cell = file.cell
                if document.root is not None:
                    yield PythonConfig(document, None, frozenset(), {}, frozenset(), file.path)

    def _candidate_dicts(self) -> list[ast.expr]:
        """Return the dicts that may be configs, in source order, outer dicts first."""
        passed = {id(each) for call in self.names.calls for each in self._dicts_passed_to_call(call)}
        keys = ROOT_KEYS
        if any(True for _ in inference_calls(self.repository, self.module)):
            keys |= inference_root_keys()
        dicts = [
            node
            for node in self.module.nodes
            if isinstance(node, ast.expr)
            and is_dict_expression(node)
            and (id(node) in passed or not keys.isdisjoint(self._keys_of_dict(node)))
        ]
        return sorted(dicts, key=lambda each: (each.lineno, each.col_offset))

    def _dicts_passed_to_call(self, call: ast.Call) -> Iterator[ast.expr]:
        """Yield the nonempty dicts that a call receives as a config, directly or through a variable."""
        arguments: list[tuple[int | str, ast.expr]] = list(enumerate(call.args))
        arguments += [(each.arg or UNPACKED, each.value) for each in call.keywords]
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
        count = len(ROOT_KEYS.intersection(keys))
        # Arguments of a program that are named like the batch keys stand among many of its own. Alone they are those
        # of Accelerate's `deepspeed_plugin.deepspeed_config_process(**kwargs)`.
        has_keys = count > 1 and ("zero_optimization" in keys or count * 2 > len(keys))
        has_keys = has_keys and not set(keys) <= set(BATCH_KEYS)
        has_keys = has_keys and not UNIQUE_KEYS.isdisjoint(keys)
        is_named = not ROOT_KEYS.isdisjoint(literal_keys) and self._is_named_like_config(value)
        if is_named or has_keys:
            return _ConfigCandidate(value, flow) if has_config_values(value) else None
        return None

    def _updates_batch(self, value: ast.expr) -> bool:
        """Return whether a dict only updates the batch sizes of another config, as in `ds_config.update({...})`."""
        parent = self.names.parents.get(value)
        is_update = isinstance(parent, ast.Call) and last_dotted_name(parent.func) == "update"
        return is_update and set(literal_keys_of_dict(value)) <= set(BATCH_KEYS)

    def _keys_of_dict(self, value: ast.expr) -> list[str]:
        """Return the keys of a dict, from its literal and from statements that set keys later."""
        statements = statements_setting_keys(variable_of_dict(self.names, value), ROOT_KEYS)
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
        return any(CONFIG_NAME.fullmatch(last_dotted_name(target)) for target in targets)

    # ------------------------------------------------------------ build documents

    def _make_config(self, candidate: _ConfigCandidate) -> PythonConfig:
        value, flow, literal, json_text, call = candidate
        nodes = ConfigNodeBuilder(
            self.text,
            self.names,
            self.constants,
            partial(self._is_in_same_cell, value),
            self.module,
            is_inference=bool(flow.receivers) and all(each.consumer == INFERENCE for each in flow.receivers),
        )
        arguments: InferenceArguments | None = None
        if literal is None:
            is_dict = call is None or call.call is not value
            node = nodes.build_node(value) if is_dict else None
            if call is not None:
                node, arguments = call.add_to_config(node, nodes, self.text)
                if call.has_hidden_keys(is_dict_shown=is_dict):
                    nodes.open_paths.add((ANY,))
            assert node is not None
            root = node
            tree = LocatedTree(root, (), tuple(nodes.comments))
        else:
            tree = json_literal_tree(self.text, literal, json_text)
            if call is not None:
                arguments = call.describe_arguments(self.text, is_dict_shown=True)
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
        if call is None or literal is not None:
            self._forget_keys_of_calls(changed, flow.receivers)
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
        arguments = arguments and arguments.shift(-start)
        return PythonConfig(document, reader, unknown, places, frozenset(flow.reads), written_to, arguments)

    def _forget_keys_of_calls(self, changed: ChangedConfig, receivers: list[ConfigReceiver]) -> None:
        """Mark the keys as unknown that calls of `init_inference` set by keyword arguments in a dict they receive."""
        for receiver in receivers:
            if receiver.consumer == INFERENCE and isinstance(receiver.call, ast.Call):
                place = self._shown_location(receiver.module, receiver.call)
                for each in InferenceCall(receiver.call).keywords:
                    changed.make_unknown((each.arg or ANY,), place)

    def _written_to(self, flow: DataFlow) -> str:
        """Return the path to which the program writes a dict as JSON; empty if there is no path or more than one."""
        paths = {self.constants.path_of_dump(call) for module, call in flow.dumps if module is self.module}
        return paths.pop() if len(paths) == 1 else ""

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
        names = [name for name in (*_BY_WEIGHT, INFERENCE) if name in (why or prepared)]
        if not names:
            return None
        first = names[0]
        is_sure = bool(why) and len(names) == 1
        others = () if why else tuple(name for name in _BY_WEIGHT if name not in (first, "lightning"))
        return ConsumerEvidence(
            first, (why or prepared)[first], "content", likely=not is_sure, others=tuple(names[1:]) or others
        )


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

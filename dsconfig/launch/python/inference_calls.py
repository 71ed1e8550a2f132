"""Read the arguments of `deepspeed.init_inference`, whose keyword arguments are keys of an inference config.

DeepSpeed merges the keyword arguments into the config, and rejects a keyword that contradicts it. So both together are
one document, whose root is the dict, or the call if the source does not show a dict. Up to 0.7.5 there are keyword
arguments only. Source: deepspeed `__init__.py:init_inference`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.document.located_tree import ObjectMember, TextSpan, TreeNode, unknown_paths
from dsconfig.job.consumers import INFERENCE
from dsconfig.launch.python.calls_receiving_dict import UNPACKED, consumer_of_argument
from dsconfig.launch.python.config_tree import replace_member
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import keyword_argument

if TYPE_CHECKING:
    from dsconfig.document.python_source import PythonSourceText
    from dsconfig.launch.python.config_tree import ConfigNodeBuilder
    from dsconfig.launch.python.constant_expressions import ConstantEvaluator
    from dsconfig.launch.python.syntax_trees import ParsedModule, ProgramRepository

_CONFIG_CLASS = "DeepSpeedInferenceConfig"
_NOT_KEYS = frozenset(("model", "config"))
"""Parameters of `init_inference` that are no keys of the config."""


class RepeatedArgument(NamedTuple):
    """A keyword argument that the config contains as well."""

    key: str
    is_unpacked: bool
    """Whether the dict is passed as `**config`, so that Python rejects the call even if the values are equal."""
    span: TextSpan
    """Span of the key in the dict."""


class InferenceArguments(NamedTuple):
    """The arguments of a call that makes an inference config, with spans in the document."""

    function: str
    """Name of the called function: `init_inference`, or the class of the config."""
    keywords: tuple[str, ...]
    """Keys that are keyword arguments."""
    is_dict_shown: bool
    """Whether the source shows the dict that the call receives."""
    positional: tuple[TextSpan, ...]
    """Positional arguments after the model."""
    config: TextSpan | None
    """Argument that is the config, or None if there is none."""
    has_invalid_config: bool
    """Whether the config is neither a dict nor the path to a file."""
    repeated: tuple[RepeatedArgument, ...]
    """Keyword arguments that the dict contains with another value."""

    def shift(self, by: int) -> InferenceArguments:
        """Return the same arguments with all spans shifted by an offset."""
        return self._replace(
            positional=tuple(_shift_span(each, by) for each in self.positional),
            config=self.config and _shift_span(self.config, by),
            repeated=tuple(each._replace(span=_shift_span(each.span, by)) for each in self.repeated),
        )


def _shift_span(span: TextSpan, by: int) -> TextSpan:
    return TextSpan(span.start + by, span.end + by)


class InferenceCall:
    """A call of `init_inference`, or of the class of its config."""

    def __init__(self, call: ast.Call, constants: ConstantEvaluator | None = None) -> None:
        self.call, self._constants = call, constants
        self.function = last_dotted_name(call.func)
        self._is_constructor = self.function == _CONFIG_CLASS
        skipped = frozenset[str]() if self._is_constructor else _NOT_KEYS
        self.keywords = [each for each in call.keywords if each.arg is not None and each.arg not in skipped]
        has_star = self._is_constructor or any(isinstance(each, ast.Starred) for each in call.args)
        is_model_named = keyword_argument(call, "model") is not None
        self.positional = [] if has_star else call.args[not is_model_named :]
        config = None if self._is_constructor else keyword_argument(call, "config")
        self.config = config or (self.positional[0] if self.positional else None)
        unpacked = [each.value for each in call.keywords if each.arg is None]
        self._is_unpacked = self.config is None and bool(unpacked)
        self._dicts = [*([] if _is_none(self.config) else [self.config]), *unpacked]

    @property
    def has_arguments(self) -> bool:
        """Whether the call itself has something to check, and not only a config from elsewhere."""
        return bool(self.keywords) or len(self.positional) > 1 or self.has_invalid_config

    @property
    def has_invalid_config(self) -> bool:
        """Whether the config is certainly neither a dict nor the path to a file."""
        config = self.config
        if isinstance(config, ast.Name) and self._constants is not None:
            config = self._constants.only_binding_of(config) or config
        if isinstance(config, ast.Constant):
            return not isinstance(config.value, str | None)
        is_object = isinstance(config, ast.Call) and last_dotted_name(config.func) == _CONFIG_CLASS
        return is_object or isinstance(config, ast.List | ast.Tuple | ast.Set)

    def has_hidden_keys(self, *, is_dict_shown: bool) -> bool:
        """Return whether the config has keys that neither the call nor the dict `is_dict_shown` is about shows."""
        return len(self._dicts) > is_dict_shown

    def add_to_config(
        self, root: TreeNode | None, nodes: ConfigNodeBuilder, text: PythonSourceText
    ) -> tuple[TreeNode, InferenceArguments]:
        """Add the keyword arguments to the node of the dict, or to a node of the call if `root` is None."""
        span = text.span_of_node(self.call)
        nodes.comments |= dict.fromkeys(text.comments_on_lines(span))
        node = root or TreeNode("object", span, {})
        repeated: list[RepeatedArgument] = []
        for each in self.keywords:
            assert each.arg is not None
            member = ObjectMember(
                each.arg, text.span_of_argument_name(each), nodes.build_node(each.value, (each.arg,))
            )
            old = next((other for other in reversed(node.members) if other.key == member.key), None)
            if old is not None and (self._is_unpacked or _differ(old.node, member.node)):
                repeated.append(RepeatedArgument(member.key, self._is_unpacked, old.key_span))
            node = replace_member(node, (each.arg,), member)
        arguments = self.describe_arguments(text, is_dict_shown=root is not None)
        return node, arguments._replace(repeated=tuple(repeated))

    def describe_arguments(self, text: PythonSourceText, *, is_dict_shown: bool) -> InferenceArguments:
        """Return the arguments for rules, without those that repeat a key of the dict."""
        return InferenceArguments(
            self.function,
            tuple(each.arg or "" for each in self.keywords),
            is_dict_shown,
            tuple(map(text.span_of_node, self.positional)),
            None if self.config is None else text.span_of_node(self.config),
            self.has_invalid_config,
            (),
        )


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _differ(first: TreeNode, second: TreeNode) -> bool:
    """Return whether two values certainly differ."""
    values = {"first": first.value, "second": second.value}
    return next(unknown_paths(values), None) is None and first.value != second.value


def inference_calls(repository: ProgramRepository, module: ParsedModule) -> Iterator[ast.Call]:
    """Yield the calls of a module that make an inference config of their keyword arguments."""
    for call in module.names.calls:
        if consumer_of_argument(repository, module, call, UNPACKED) == INFERENCE:
            yield call

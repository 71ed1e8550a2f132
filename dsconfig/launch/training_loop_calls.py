"""Find code of a program's set-up and loop that contradicts the config: batches, schedules, and ranks set by hand."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dsconfig.launch.calls_of_program import ConfigSensitiveCall, is_deepspeed_initialize
from dsconfig.launch.model_handling_calls import ModelHandlingCalls
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import (
    argument_at,
    called_function_name,
    keyword_argument,
    literal_value,
)

_NOT_TRAINING = re.compile(r"val|test|eval|dev|infer|predict|valid", re.IGNORECASE)
"""Pattern of the names of data loaders that do not feed the training loop."""
_CHANGES_BATCH = frozenset({"deepspeed_io", "train_micro_batch_size_per_gpu", "set_train_batch_size"})
"""Names by which a program gets its batches from the engine, or tells the engine about them."""
_COUNTS_OF_RANKS = frozenset({"num_processes", "world_size", "get_world_size", "device_count"})
_RANK_VARIABLES = ("WORLD_SIZE", "RANK")


class TrainingLoopCalls(ModelHandlingCalls):
    """Search for the data loaders, placeholders of schedules and rank variables of a program."""

    def contradicting_loop_calls(self) -> Iterator[ConfigSensitiveCall]:
        """Yield a loader, a placeholder of a schedule, or a rank variable that may contradict the config."""
        yield from self._loaders_of_constant_batch()
        yield from self._steps_divided_by_ranks()
        yield from self._rank_variables_set_by_hand()

    def _loaders_of_constant_batch(self) -> Iterator[ConfigSensitiveCall]:
        """Yield the only training `DataLoader` of a program that calls `deepspeed.initialize`, with its batch size."""
        starts = [call for call in self.calls if is_deepspeed_initialize(call)]
        if not starts or (self.referenced | self.strings) & _CHANGES_BATCH:
            return
        if any(keyword_argument(call, "training_data") is not None for call in starts):
            return
        loaders = [
            call
            for call in self.calls
            if called_function_name(call) == "DataLoader"
            and not _NOT_TRAINING.search(self._assigned_name(call))
        ]
        if len(loaders) != 1 or not self._runs_unless_excluded(loaders[0]):
            return
        size = argument_at(loaders[0], 1, "batch_size")
        if isinstance(size, ast.Name):
            values = self._all_values_of_variable(size.id, loaders[0])
            size = values[0] if len(values) == 1 else None
        value = literal_value(size)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            yield self._describe_call("loader of constant batch", loaders[0], value)

    def _assigned_name(self, call: ast.Call) -> str:
        """Return the names to which the result of a call is assigned, or of the function that returns it."""
        parent = self.parents.get(id(call))
        if isinstance(parent, ast.Assign):
            return " ".join(ast.unparse(target) for target in parent.targets)
        function = self._enclosing_function(call)
        return function.name if isinstance(function, ast.FunctionDef) else ""

    def _steps_divided_by_ranks(self) -> Iterator[ConfigSensitiveCall]:
        """Yield `DummyScheduler(...)` calls whose number of steps the program has already divided by the ranks."""
        for call in self.calls:
            steps = argument_at(call, 1, "total_num_steps")
            is_placeholder = called_function_name(call) == "DummyScheduler" and self._may_run(call)
            if is_placeholder and steps is not None and self._is_divided_by_ranks(steps, call, depth=0):
                yield self._describe_call("steps divided by ranks", call)

    def _is_divided_by_ranks(self, value: ast.expr, call: ast.Call, depth: int) -> bool:
        for node in ast.walk(value):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv):
                divisors = {last_dotted_name(each) for each in ast.walk(node.right)}
                if divisors & _COUNTS_OF_RANKS:
                    return True
        names = [node.id for node in ast.walk(value) if isinstance(node, ast.Name)]
        return depth < _MOST_STEPS and any(
            self._is_divided_by_ranks(values[0], call, depth + 1)
            for name in names
            if len(values := self._all_values_of_variable(name, call)) == 1
        )

    def _rank_variables_set_by_hand(self) -> Iterator[ConfigSensitiveCall]:
        """Yield the assignment of a constant to `os.environ["WORLD_SIZE"]`, if the program sets `RANK` as well."""
        constants: dict[str, tuple[ast.Assign, int]] = {}
        for node in self.module.nodes:
            if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Subscript):
                continue
            target = node.targets[0]
            name, value = literal_value(target.slice), str(literal_value(node.value))
            if last_dotted_name(target.value) != "environ" or name not in _RANK_VARIABLES:
                continue
            if value.isdecimal() and len(value) < _LONGEST_NUMBER and self._is_unconditional(node):
                constants[str(name)] = (node, int(value))
        if len(constants) == len(_RANK_VARIABLES) and not self.referenced & _STARTS_PROCESSES:
            assignment, ranks = constants["WORLD_SIZE"]
            yield self._describe_call("ranks set by hand", assignment, ranks)


_MOST_STEPS = 4
_LONGEST_NUMBER = 6
_STARTS_PROCESSES = frozenset({"spawn", "Process", "Popen", "start_processes", "notebook_launcher"})

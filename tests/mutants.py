"""Shows that the tests hold the rules' conditions: `python -m tests.mutants`.

Each mutant is a rule with one comparison or boolean operator inverted, in memory; its pages and cases are
run, and something has to fail. Nothing is written.
"""

from __future__ import annotations

import argparse
import ast
import copy
import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from dsconfig.evaluation.evaluate import _find_applicable_rules
from dsconfig.evaluation.rule import DECLARED, RuleDeclaration
from dsconfig.rules import RULES, Rule
from tests.cases import cases
from tests.cases.words import found
from tests.examples import examples

INVERSE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule with one condition inverted, and that condition before and after."""

    rule: RuleDeclaration
    was: str
    now: str


def mutants(rule: Rule) -> Iterator[Mutant]:
    """Every mutant of the conditions in a rule's own function."""
    source = textwrap.dedent(inspect.getsource(rule.check))
    tree = ast.parse(source)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list = []
    tests = [node.test for node in ast.walk(function) if isinstance(node, ast.If)]
    count = sum(1 for test in tests for _ in _spots(test))
    for number in range(count):
        changed = copy.deepcopy(tree)
        spots = [
            (test, spot)
            for test in (node.test for node in ast.walk(changed) if isinstance(node, ast.If))
            for spot in _spots(test)
        ]
        test, spot = spots[number]
        was = ast.unparse(test)
        _invert(spot)
        yield Mutant(rule.declared._replace(check=_compiled(changed, rule)), was, ast.unparse(test))


def _spots(test: ast.expr) -> Iterator[Any]:
    for node in ast.walk(test):
        if isinstance(node, ast.BoolOp) or (isinstance(node, ast.Compare) and type(node.ops[0]) in INVERSE):
            yield node


def _invert(node: Any) -> None:
    if isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    else:
        node.ops[0] = INVERSE[type(node.ops[0])]()


def _compiled(tree: ast.Module, rule: Rule) -> Any:
    names = dict(vars(sys.modules[rule.check.__module__]))
    exec(compile(ast.fix_missing_locations(tree), f"<{rule.code}>", "exec"), names)
    return names[rule.check.__name__]


def failure(mutant: Mutant) -> str | None:
    """The first test of the rule that the mutant fails; None where it survives."""
    rule = RULES[mutant.rule.code]
    declared = rule.declared
    DECLARED[rule.code] = mutant.rule
    RULES[rule.code] = rule._replace(triggers=None, consumers=None)  # it may ask for something else
    _forget()
    try:
        return next(_failures(rule), None)
    finally:
        DECLARED[rule.code], RULES[rule.code] = declared, rule
        _forget()


def _forget() -> None:
    _find_applicable_rules.cache_clear()


def _failures(rule: Rule) -> Iterator[str]:
    for example in examples(rule):
        try:
            fires = any(d.code == rule.code for d in example.check())
        except Exception as error:  # a mutant may do anything
            yield f"page, {example.kind}: {type(error).__name__}"
            continue
        if fires != (example.kind == "Bad"):
            yield f"page, {example.kind}"
    for case in cases(rule.code):
        try:
            caught = found(case) != case.finds
        except Exception as error:
            yield f"case {case.entry['name']}: {type(error).__name__}"
            continue
        if caught:
            yield f"case {case.entry['name']}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0 where every mutant is caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.split("\n")[0])
    parser.add_argument("codes", nargs="*", metavar="CODE", help="default: ten random rules")
    parser.add_argument("--all", action="store_true", help="every rule")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    known = {rule.code: own for rule in RULES.values() if (own := list(mutants(rule)))}
    ten = sorted(Random(options.seed).sample(sorted(known), 10))
    codes = sorted(known) if options.all else options.codes or ten
    survivors = total = 0
    for code in codes:
        for mutant in known.get(code, []) if options.all or options.codes else known[code][:1]:
            total += 1
            caught = failure(mutant)
            survivors += caught is None
            if not options.all or caught is None:
                print(f"{code} {mutant.rule.name}: `{mutant.was}` → `{mutant.now}`: {caught or 'SURVIVES'}")
    print(f"{total - survivors} of {total} mutants are caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())

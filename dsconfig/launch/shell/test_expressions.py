"""Result of `[ … ]` and `[[ … ]]` with known operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from dsconfig.launch.shell import arithmetic as shell_arithmetic

_MAX_WORDS = 200


def contains_unknown_value(*texts: str) -> bool:
    """Whether a text contains a value that is unknown before the run."""
    return any("$" in text or "`" in text for text in texts)


def evaluate_test(words: list[str], *, is_double: bool) -> bool | None:
    """Result of a test with expanded words; None if it depends on an unknown value, or is too long to be real."""
    words = words if len(words) <= _MAX_WORDS else ["$"]
    for operators, absorbing in ((("||", "-o"), True), (("&&", "-a"), False)):
        at = next(
            (at for at, word in enumerate(words) if word in operators and 0 < at < len(words) - 1), None
        )
        if at is not None:
            left = evaluate_test(words[:at], is_double=is_double)
            right = evaluate_test(words[at + 1 :], is_double=is_double)
            if absorbing in (left, right):
                return absorbing
            return None if None in (left, right) else not absorbing
    if words[:1] == ["!"]:
        result = evaluate_test(words[1:], is_double=is_double)
        return None if result is None else not result
    if any(word in ("(", ")") for word in words):
        return None
    if len(words) == 1:
        return None if contains_unknown_value(words[0]) else bool(words[0])
    if len(words) == 2:
        return (
            None
            if contains_unknown_value(words[1]) or words[0] not in ("-z", "-n")
            else (words[0] == "-z") != bool(words[1])
        )
    if len(words) != 3 or contains_unknown_value(words[0], words[2]):
        return None
    left_word, operator, right_word = words
    if operator in ("=", "==", "!="):
        is_equal = fnmatchcase(left_word, right_word) if is_double else left_word == right_word
        return is_equal if operator != "!=" else not is_equal
    numbers = [shell_arithmetic.evaluate_arithmetic(each) for each in (left_word, right_word)]
    if operator not in _COMPARISONS or numbers[0] is None or numbers[1] is None:
        return None
    return _COMPARISONS[operator](numbers[0], numbers[1])


_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": int.__eq__,
    "-ne": int.__ne__,
    "-lt": int.__lt__,
    "-le": int.__le__,
    "-gt": int.__gt__,
    "-ge": int.__ge__,
}

"""Unknown keys: typos, misplaced keys, and keys that no release has ever read."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import EffectName, Fix, dotted_path
from dsconfig.core.json_types import Json, KeyPath, NamedTuple
from dsconfig.core.releases import NEVER
from dsconfig.core.wording import describe_type, join_alternatives, quote_value
from dsconfig.evaluation.key_walk import KnownKey, UnknownKey
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding, SkipRule
from dsconfig.model.key_table import (
    INFERENCE_ROOT,
    ROOT,
    KeyInfo,
    SectionView,
    intended_key,
    keys_of_section_class,
    section_view_of_release,
)
from dsconfig.rules._fixes import (
    move_key,
    move_key_with_value,
    remove_key,
    remove_key_showing_value,
    rename_key,
)
from dsconfig.rules._suggest_key import accepts_kind_of_value, guess_intended_key
from dsconfig.rules._suggest_section import (
    COMMON,
    NOT_TO_WRITE,
    OF_OTHERS,
    is_read_at,
    only_path_of,
    paths_of,
)

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Literal, TypeAlias, TypeVar

# Keys that no release reads in their section.

_ROOT = "runtime/config.py:DeepSpeedConfig._initialize_params"


@rule("DSC101", effect="ignored", source=_ROOT, reads="keys")
def unknown_key(ctx: Context) -> Iterator[Finding]:
    """A key is unknown to every DeepSpeed release.

    DeepSpeed silently ignores an unknown key at the top level and in sections that it parses by hand, so the
    setting has no effect. Strict sections (`zero_optimization`, `fp16`, …) reject the whole config. Comment
    keys that start with `_` or `//` are fine outside strict sections.

    Bad:

        {"train_batch_size": 8, "cuda_visible_devices": "0,1"}

    Good:

        {"train_batch_size": 8}

    Fixed:

        {"train_batch_size": 8}
    """
    for key, (unfit, paths) in unknown_keys_by_cause(ctx, UnexplainedKey):
        value = key.entry.value
        elsewhere = [] if key.name in COMMON else [path for path in paths if _can_move(ctx, key, path)]
        yield ctx.at(
            key.path,
            f"`{key.name}` is not a DeepSpeed key {key.where}: {key.fate}",
            help=_removal_help(key, unfit, elsewhere),
            effect=key.effect,
            part="key",
            # No fix removes a key that may stand for another one: the user decides.
            fix=None
            if unfit or paths or _has_guess_in_target(ctx, key)
            else remove_key_showing_value(key.path, value),
        )


def _can_move(ctx: Context, key: UnknownKeyWithCause, path: str) -> bool:
    return move_key(ctx, key.path, tuple(path.split(".")), key.entry.value) is not None


def _has_guess_in_target(ctx: Context, key: UnknownKeyWithCause) -> bool:
    """Return whether the first or last release of the target has a key that is similar to the unknown one."""
    others = set(ctx.target) - {ctx.release}
    return any(
        guess_intended_key(
            key.name, key.entry.value, section_view_of_release(key.section.name, other)
        ).suggestions
        for other in others
    )


def _removal_help(key: UnknownKeyWithCause, unfit: tuple[str, ...], elsewhere: list[str]) -> str:
    valid_keys = list(key.section.keys)
    if unfit:
        types = [f"`{name}` takes {describe_type(key.section.keys[name].type)}" for name in unfit]
        return f"remove it, or correct its name and value: {join_alternatives(types, 'and')}"
    if 0 < len(elsewhere) <= _MAX_PATHS:
        return f"remove it, or move it to {join_alternatives(f'`{path}`' for path in elsewhere)}"
    if 0 < len(valid_keys) <= _MAX_KEYS:
        names = join_alternatives((f"`{name}`" for name in valid_keys), "and")
        return f"remove it; the valid keys of the section are {names}"
    return "remove it"


_MAX_PATHS, _MAX_KEYS = 3, 8
"""Maximum number of paths of a key, and of keys of a section, that a help message lists."""


@rule("DSC102", effect="ignored", source=_ROOT, reads="keys")
def typo(ctx: Context) -> Iterator[Finding]:
    """A key is unknown, but similar to an existing one.

    Bad:

        {"train_batch_size": 8, "gradient_clipp1ng": 1.0}

    Good:

        {"train_batch_size": 8, "gradient_clipping": 1.0}

    Fixed:

        {"train_batch_size": 8, "gradient_clipping": 1.0}
    """
    for key, reason in unknown_keys_by_cause(ctx, MistypedKey):
        help_text, fix = _suggest_correction(ctx, key, reason)
        yield ctx.at(
            key.path,
            f"`{key.name}` is not a DeepSpeed key {key.where}: {key.fate}",
            help=help_text,
            effect=key.effect,
            part="key",
            fix=fix,
        ).as_typo_of(*((*key.path[:-1], name) for name in reason.suggestions))


def _suggest_correction(
    ctx: Context, key: UnknownKeyWithCause, reason: MistypedKey
) -> tuple[str, Fix | None]:
    suggestions, sure = reason
    names = join_alternatives(f"`{name}`" for name in suggestions)
    question = f"did you mean {names}?"
    info = key.section.keys[suggestions[0]].info
    try:
        if any(ctx.has(dotted_path((*key.path[:-1], name))) for name in suggestions):
            return f"{question} It is set already: remove one of the two", None
    except SkipRule:  # a program may set it elsewhere
        return question, None
    if "unread" in info.flags:
        return f"{replacement_advice(ctx, info, key.entry)}: the similar {names} has no effect either", None
    if info.deprecated <= ctx.release and info.rewrite and info.replaced_by:
        to = tuple(info.replaced_by.split("."))
        fix = convert_to_new_key(ctx, info, key.entry, to)
        return f"{question} It is deprecated: {replacement_advice(ctx, info, key.entry)}", fix
    if len(suggestions) > 1:
        return question, None
    return question, rename_key(ctx, key.path, suggestions[0], key.entry.value, safe=key.is_rejected and sure)


@rule("DSC103", effect="ignored", source=_ROOT, reads="keys")
def misplaced_key(ctx: Context) -> Iterator[Finding]:
    """A key is in the wrong section, where DeepSpeed does not read it.

    A common example is `offload_optimizer` at the top level: DeepSpeed does not offload, and prints no warning.

    Bad:

        {"train_batch_size": 8, "offload_optimizer": {"device": "cpu"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    for key, (path,) in unknown_keys_by_cause(ctx, MisplacedKey):
        help_text, fix = _suggest_move(ctx, key, path)
        yield ctx.at(
            key.path,
            f"`{key.name}` does not belong {key.where}: {key.fate}",
            help=help_text,
            effect=key.effect,
            part="key",
            fix=fix,
        ).as_typo_of(ctx.written_path(path))


def _suggest_move(ctx: Context, key: UnknownKeyWithCause, path: str) -> tuple[str, Fix | None]:
    target = ctx.key(path)
    if target is not None and target.info.deprecated <= ctx.release and target.info.replaced_by:
        to = tuple(target.info.replaced_by.split("."))
        return replacement_advice(ctx, target.info, key.entry), convert_to_new_key(
            ctx, target.info, key.entry, to
        )
    return f"move it to `{path}`", move_key(ctx, key.path, tuple(path.split(".")), key.entry.value)


@rule("DSC107", effect="ignored", source=_ROOT, reads="keys")
def dead_key(ctx: Context) -> Iterator[Finding]:
    """No release has ever read this key, although documentation, tutorials or examples show it.

    Bad:

        {"train_batch_size": 8, "comms_config": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "comms_logger": {"enabled": true}}
    """
    for key, (to,) in unknown_keys_by_cause(ctx, NeverReadKey):
        value = key.entry.value
        yield ctx.at(
            key.path,
            f"`{key.name}` was never a DeepSpeed key {key.where}, although some examples use it: {key.fate}",
            help=f"use `{dotted_path(to)}` instead" if to else "remove it",
            effect=key.effect,
            part="key",
            fix=move_key(ctx, key.path, to, value) if to else remove_key_showing_value(key.path, value),
        ).as_typo_of(to)


@rule("DSC119", effect="ignored", source=_ROOT, reads="keys")
def key_of_other_config(ctx: Context) -> Iterator[Finding]:
    """A key of inference configs is in a training config, or a key of training configs in an inference config.

    `deepspeed.initialize` and `deepspeed.init_inference` read different configs. A training config ignores keys of
    the other kind, and an inference config with such a key is rejected.

    Bad:

        {"train_batch_size": 8, "replace_with_kernel_inject": true}

    Good:

        {"train_batch_size": 8}

    Bad, read by inference:

        {"tensor_parallel": {"tp_size": 2}, "bf16": {"enabled": true}}

    Good, read by inference:

        {"tensor_parallel": {"tp_size": 2}, "dtype": "bf16"}
    """
    for key, (config,) in unknown_keys_by_cause(ctx, KeyOfOtherConfig):
        call, consumer = _CALLS[config]
        dtype = f' and set `dtype` to `"{key.name}"`' if key.name in ("bf16", "fp16") else ""
        yield ctx.at(
            key.path,
            f"`{key.name}` is a key of {config} configs (`deepspeed.{call}`), not of {_OTHER[config]} configs: "
            f"{key.fate}",
            help=f"remove it{dtype}, or check with `--consumer {consumer}` if `deepspeed.{call}` loads the file",
            effect=key.effect,
            part="key",
        )


_OTHER = {"training": "inference", "inference": "training"}
_CALLS = {"training": ("initialize", "deepspeed"), "inference": ("init_inference", "inference")}
"""The call that reads each kind of config, and the consumer that stands for it."""


# Classification: the most likely reason why the release does not read a key.


class KeyOfEarlierReleases(NamedTuple):
    """The key is unknown because only earlier releases read it."""

    info: KeyInfo


class KeyOfLaterReleases(NamedTuple):
    """The key is unknown because only later releases read it."""

    info: KeyInfo


class NeverReadKey(NamedTuple):
    """The key is unknown because no release ever read it, although some examples use it."""

    replacement: KeyPath
    """Path of the key to use instead; empty if there is none."""


class MisplacedKey(NamedTuple):
    """The key is unknown because it belongs in another section."""

    path: str


class MistypedKey(NamedTuple):
    """The key is unknown because it is a typo of another key, or of one of several that are equally similar."""

    suggestions: tuple[str, ...]
    sure: bool


class UnexplainedKey(NamedTuple):
    """The key is unknown for no apparent reason: no similar key accepts its value."""

    unfit: tuple[str, ...]
    """Similar keys of the section that do not accept the value's type."""
    elsewhere: tuple[str, ...]
    """Paths of keys with this name in other sections."""


class KeyOfOtherConfig(NamedTuple):
    """The key is unknown because it belongs in the other kind of config, training or inference."""

    config: Literal["training", "inference"]
    """Kind of config that has the key."""


Reason: TypeAlias = (
    "KeyOfEarlierReleases | KeyOfLaterReleases | NeverReadKey | KeyOfOtherConfig | MisplacedKey | MistypedKey"
    " | UnexplainedKey"
)
if TYPE_CHECKING:
    R = TypeVar(
        "R",
        KeyOfEarlierReleases,
        KeyOfLaterReleases,
        NeverReadKey,
        KeyOfOtherConfig,
        MisplacedKey,
        MistypedKey,
        UnexplainedKey,
    )


class UnknownKeyWithCause(NamedTuple):
    """A key that the release does not read in its section, and the most likely reason."""

    entry: UnknownKey
    reason: Reason

    @property
    def path(self) -> KeyPath:
        """Path of the key."""
        return self.entry.path

    @property
    def section(self) -> SectionView:
        """Section that contains the key."""
        return self.entry.section

    @property
    def name(self) -> str:
        """Name of the key, without its section."""
        return str(self.path[-1])

    @property
    def is_rejected(self) -> bool:
        """Whether DeepSpeed rejects the config because of the key."""
        if isinstance(self.reason, KeyOfEarlierReleases) and self.reason.info.refused_from < NEVER:
            return True
        return _section_rejects(self.entry)

    @property
    def effect(self) -> EffectName:
        """Effect of the key on the config."""
        return "rejected" if self.is_rejected else "ignored"

    @property
    def where(self) -> str:
        """Phrase that says where the key is."""
        parent = dotted_path(self.path[:-1])
        return f"in `{parent}`" if parent else "at the top level"

    @property
    def fate(self) -> str:
        """Phrase that says what DeepSpeed does with the key."""
        if self.is_rejected:
            return "DeepSpeed rejects the config"
        if self.section.unknown == "rejected":
            return 'DeepSpeed ignores it because its value is `"auto"`'
        return "DeepSpeed ignores it"


def unknown_keys_by_cause(ctx: Context, kind: type[R]) -> Iterator[tuple[UnknownKeyWithCause, R]]:
    """Yield the unknown keys whose reason has the type `kind`."""
    for key in ctx.cached(_classify_unknown_keys):
        if isinstance(key.reason, kind):
            yield key, key.reason


def _classify_unknown_keys(ctx: Context) -> list[UnknownKeyWithCause]:
    """Classify every unknown key that a rule reports."""
    classified: list[UnknownKeyWithCause] = []
    counts: dict[tuple[str, bool], int] = {}
    for entry in ctx.walk.unknown:
        section = entry.section
        kind = section.name, section.unknown == "rejected" and _section_rejects(entry)
        if counts.get(kind, 0) >= ctx.max_findings and entry.path[-1] not in keys_of_section_class(
            section.name
        ):
            ctx.is_truncated = True
            continue
        reason = _most_likely_cause(ctx, entry)
        if reason is not None:
            counts[kind] = counts.get(kind, 0) + 1
            classified.append(UnknownKeyWithCause(entry, reason))
    return classified


def _section_rejects(entry: UnknownKey) -> bool:
    """Return whether the section rejects the key; strict sections do, unless its value is "auto"."""
    return entry.section.unknown == "rejected" and not (entry.section.drops_auto and entry.value == "auto")


def _most_likely_cause(ctx: Context, entry: UnknownKey) -> Reason | None:
    """Return why a key is most likely unknown, or None if it is deliberate."""
    path, section = entry.path, entry.section
    name = str(path[-1])
    if ctx.consumer != "deepspeed" and len(path) == 1 and name in _consumer_keys(ctx.consumer):
        return None
    if (
        section.dialect == "hand" and ctx.root_section == INFERENCE_ROOT
    ):  # DSC885: the release has no such config
        return None
    info = keys_of_section_class(section.name).get(name)
    if info is not None and ctx.release >= info.refused_from:
        return KeyOfEarlierReleases(info)
    if section.unknown == "kept" or _is_deliberate_addition(entry, name):
        return None
    if info is not None:
        return (
            KeyOfEarlierReleases(info)
            if all(last < ctx.release for _, last in info.spans)
            else KeyOfLaterReleases(info)
        )
    if len(path) == 1 and (config := _other_config_with_key(ctx, name)):
        return KeyOfOtherConfig(config)
    path_to_use = _never_read_replacement(ctx, entry)
    return NeverReadKey(path_to_use) if path_to_use is not None else _find_similar_key(ctx, entry)


def _other_config_with_key(ctx: Context, name: str) -> Literal["training", "inference"] | None:
    """Return the other kind of config if only that kind has a top-level key of this name."""
    if ctx.root_section == INFERENCE_ROOT:
        return "training" if name in keys_of_section_class(ROOT) else None
    from dsconfig.job.detect_consumer import is_inference_key

    # The section shares its parser with inference configs, but training does not use their keys.
    is_shared = all(path.startswith("tensor_parallel.") for path in paths_of(ctx, name))
    return "inference" if is_inference_key(name) and is_shared else None


def _never_read_replacement(ctx: Context, entry: UnknownKey) -> KeyPath | None:
    """Return the replacement for a key that no release ever read, or None for any other key.

    An empty path means that the key has no replacement.
    """
    path = entry.path
    name, above = str(path[-1]), path[:-1]
    if above and name == above[-1] and isinstance(entry.value, bool) and "enabled" in entry.section.keys:
        return (*above, "enabled")
    intended = intended_key(entry.section.name, name)
    if intended is None:
        return None
    section, place = intended
    # The section may be in the config under another name.
    to = (*above, place[-1]) if section == entry.section.name and place else place
    return to if place and is_read_at(ctx, place) else ()


def _find_similar_key(ctx: Context, entry: UnknownKey) -> Reason:
    name, above = str(entry.path[-1]), entry.path[:-1]
    path = only_path_of(ctx, name, above) or (
        None if above else _path_of_attribute_name(ctx, name, entry.value)
    )
    key = ctx.key(path) if path is not None else None
    if path is not None and (key is None or accepts_kind_of_value(key, entry.value)):
        return MisplacedKey(path)
    similar = guess_intended_key(name, entry.value, entry.section)
    if similar.suggestions:
        return MistypedKey(similar.suggestions, similar.sure)
    stem = name.removesuffix("_config")  # attributes of `DeepSpeedConfig` such as `zero_config`
    if (
        stem != name
        and stem in entry.section.keys
        and accepts_kind_of_value(entry.section.keys[stem], entry.value)
    ):
        return MistypedKey((stem,), sure=False)
    elsewhere = [other for other in paths_of(ctx, name) if other != dotted_path(above)]
    if not above and name in OF_OTHERS:
        elsewhere = [other for other in elsewhere if ctx.has(other.partition(".")[0])]
    return UnexplainedKey(similar.unfit, tuple(elsewhere))


def _path_of_attribute_name(ctx: Context, name: str, value: Json) -> str | None:
    """Return the key for an attribute of `DeepSpeedConfig`, such as `fp16.auto_cast` for `fp16_auto_cast`."""
    for cut, letter in enumerate(name):
        path = f"{name[:cut]}.{name[cut + 1 :]}"
        key = ctx.key(path) if letter == "_" and name[cut + 1 :] not in ("", "*") else None
        if key is not None and not key.info.flags & NOT_TO_WRITE and accepts_kind_of_value(key, value):
            return path
    return None


def _consumer_keys(consumer: str) -> tuple[str, ...]:
    from dsconfig.job.consumers.consumer import BY_NAME

    return BY_NAME[consumer].own_keys


def _is_deliberate_addition(entry: UnknownKey, name: str) -> bool:
    """Return whether a key is one that users add deliberately, such as `$schema`, `_comment` or `//`."""
    if entry.section.unknown == "rejected":
        return False
    return (
        name.startswith(("_", "//", "#"))
        or name.lower() in _COMMENT_KEYS
        or (len(entry.path) == 1 and name in ("$schema", "$dsconfig"))
    )


_COMMENT_KEYS = frozenset({"comment", "comments", "description", "note", "notes"})


# Replacements of removed and deprecated keys.


def replace_with_new_name(ctx: Context, entry: KnownKey | UnknownKey, *, safe: bool = False) -> Fix | None:
    """Return a fix that gives a key its new name, or None if it has none or the name is taken.

    The release determines whether the fix is `safe`.
    """
    info = keys_of_section_class(entry.section.name).get(str(entry.path[-1]))
    if info is None or info.replaced_by is None:
        return None
    new = (*entry.path[:-1], info.replaced_by.rpartition(".")[2])
    return convert_to_new_key(ctx, info, entry, new, safe=safe)


def convert_to_new_key(
    ctx: Context, info: KeyInfo, entry: KnownKey | UnknownKey, to: KeyPath, *, safe: bool = False
) -> Fix | None:
    """Return a fix that moves a value to the new key at `to` and converts it, or None if that is impossible."""
    if info.rewrite is None:
        return None
    conversion, on = info.rewrite
    path, value = entry.path, entry.value
    if conversion == "move":
        return move_key(ctx, path, tuple((info.replaced_by or "").split(".")), value, safe=safe)
    if conversion == "rename":
        return rename_key(ctx, path, str(to[-1]), value, safe=safe) if path[:-1] == to[:-1] else None
    if not isinstance(value, bool):
        return None
    if conversion == "negate":
        return move_key_with_value(ctx, path, to, not value, safe=safe)
    return move_key_with_value(ctx, path, to, on, safe=safe) if value else remove_key(path, safe=safe)


def replacement_advice(ctx: Context, info: KeyInfo, entry: KnownKey | UnknownKey) -> str:
    """Return advice about a removed or deprecated key that mentions only keys of the release."""
    new_key = info.replaced_by
    if new_key is None or (is_path(new_key) and not is_key_of_release(ctx, new_key)):
        return info.advice or "remove it"
    if not is_path(new_key):
        return f"remove it, and use {new_key} instead"
    if ctx.has(new_key):
        return f"remove it: `{new_key}` is set already"
    return (
        _rewrite_advice(info, entry, new_key)
        or f"remove it, and rewrite it as `{new_key}`, which has another structure"
    )


def _rewrite_advice(info: KeyInfo, entry: KnownKey | UnknownKey, new_key: str) -> str | None:
    """Return advice on how to spell a value under the new key, or None if its structure differs."""
    conversion, on = info.rewrite or ("", None)
    if conversion in ("rename", "move"):
        return f"use `{new_key}` instead"
    if conversion and isinstance(entry.value, bool):
        if conversion == "switch" and not entry.value:
            return "remove it"
        return f"set `{new_key}` to {quote_value(on if conversion == 'switch' else not entry.value)} instead"
    return f"use `{new_key}` instead" if conversion else None


def is_path(text: str) -> bool:
    """Return whether a key's replacement is a key path rather than a phrase."""
    return " " not in text and "(" not in text


def is_key_of_release(ctx: Context, path: str) -> bool:
    """Return whether the release reads a key, or for a key below a user-defined name, the section."""
    return ctx.key(path.partition(".*")[0]) is not None


def switches_section_off(value: object) -> bool:
    """Return whether a value disables its section, so that the section can be removed."""
    return value is None or value is False or (isinstance(value, dict) and value.get("enabled") is False)

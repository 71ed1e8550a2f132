"""Values that the engine refuses as it starts."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import expected, kind, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._suggest_section import named
from dsconfig.rules.expert_parallel._section import EP, bad_integer, on_here, requires_autoep

_VALIDATE = "module_inject/auto_ep_config.py:validate_autoep_config"


@rule(
    "DSC702", effect="rejected", since="0.19.2", source="module_inject/auto_ep_config.py:parse_autoep_config"
)
def load_balance_coeff_given(ctx: Context) -> Iterator[Finding]:
    """`expert_parallel.load_balance_coeff` holds a value.

    The key is reserved: DeepSpeed refuses anything but null there, even while expert parallelism is off.

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "load_balance_coeff": 0.001}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true}}

    Fixed:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true}}
    """
    path = "expert_parallel.load_balance_coeff"
    value = ctx.value(path)
    if value is not None:
        yield ctx.at(
            path,
            f"`load_balance_coeff` is {quoted(value)}, but DeepSpeed reserves the key and takes only `null`",
            help="remove it",
            fix=removal(("expert_parallel", "load_balance_coeff")),
        )


_WORDS = (
    "preset_model",
    "score_apply",
    "combine_impl",
    "row_weighting_impl",
    "gate_up_impl",
    "comm_backend",
    "score_func",
    "expert_activation",
)
_SIZES = ("autoep_size", "comm_num_sm", "comm_qp_margin", "comm_max_tokens_per_rank")
_GROUPS = ("num_expert_groups", "num_limited_groups")
_SWITCHES = ("validate_folding_routing", "async_split_plan", "has_shared_experts")
_DIRECT = (
    "expert_w1",
    "expert_w2",
    "expert_w3",
    "num_experts_attr",
    "top_k_attr",
    "router_pattern",
    "expert_pattern",
    "shared_experts_pattern",
    "shared_experts_gate_pattern",
)
"""Names of attributes of one object, so that a dot in them leads nowhere."""


def _wrong(ctx: Context, key: str) -> tuple[str, str] | None:
    """What is wrong with a key, and what it takes; None where the engine accepts it."""
    value = ctx.written(f"{EP}.{key}")
    if key in _SIZES:
        least = 0 if key in ("comm_qp_margin", "comm_max_tokens_per_rank") else 1
        return ("", f"an integer of at least {least}") if bad_integer(value, least) else None
    if key in _GROUPS:
        few = isinstance(value, int | float) and value < 1
        return ("", "an integer of at least 1, or `null`") if few or isinstance(value, str) else None
    if key in _SWITCHES:
        fine = isinstance(value, bool) or (value is None and key == "has_shared_experts")
        return None if fine else ("", "`true` or `false`")
    if key in _DIRECT and value is not None:
        if not isinstance(value, str) or not value:
            return "", "the name of an attribute"
        return (" with a dot", "the name of a direct attribute, without dots") if "." in value else None
    if key == "routed_scaling_factor" and value != "auto" and not isinstance(value, int | float):
        return "", 'a number or `"auto"`'
    return None


@rule("DSC730", effect="crashes", since="0.19.2", source=_VALIDATE)
def unsupported_expert_parallel_value(ctx: Context) -> Iterator[Finding]:
    """A key of `expert_parallel` has a value that the engine refuses when it starts.

    DeepSpeed reads the section without looking at it, and checks words, sizes, switches and names of
    attributes when the engine is made, and then only if `enabled` is true. Nothing is converted: `1.0` and
    `"2"` are not sizes.

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "score_func": "relu"}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "score_func": "sigmoid"}}

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "expert_w1": "experts.gate"}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "expert_w1": "gate_proj"}}
    """
    requires_autoep(ctx)
    for event in ctx.walk.refused:
        word = event.path[-1]
        if event.path[0] == EP and word in _WORDS:
            yield _refused(ctx, str(word), "", expected(event.verdict.expected))
    for word in ctx.data[EP]:
        wrong = _wrong(ctx, word) if ctx.key(f"{EP}.{word}") else None
        if wrong:
            yield _refused(ctx, word, *wrong)


def _refused(ctx: Context, word: str, how: str, takes: str) -> Finding:
    value = ctx.written(f"{EP}.{word}")
    shown = quoted(value) if value is None or isinstance(value, str) else f"{kind(value)}, {quoted(value)}"
    return ctx.at(
        f"{EP}.{word}",
        f"{named((EP, word))} is {shown}{how}, and the engine takes {takes}",
        help=f"give {takes}",
        related=[on_here()],
    )

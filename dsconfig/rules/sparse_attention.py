"""Sparse attention."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import join_alternatives, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._fixes import remove_key

_MODES: dict[str, tuple[str, ...]] = {
    "dense": (),
    "fixed": (
        "different_layout_per_head",
        "num_local_blocks",
        "num_global_blocks",
        "attention",
        "horizontal_global_attention",
        "num_different_global_patterns",
    ),
    "variable": (
        "different_layout_per_head",
        "num_random_blocks",
        "local_window_blocks",
        "global_block_indices",
        "global_block_end_indices",
        "attention",
        "horizontal_global_attention",
    ),
    "bigbird": (
        "different_layout_per_head",
        "num_random_blocks",
        "num_sliding_window_blocks",
        "num_global_blocks",
    ),
    "bslongformer": (
        "different_layout_per_head",
        "num_sliding_window_blocks",
        "global_block_indices",
        "global_block_end_indices",
    ),
}
"""Keys of `sparse_attention` that each mode reads, in addition to the common ones."""


@rule("DSC937", effect="ignored", until="0.19.6", source="runtime/config.py:get_sparse_attention")
def sparse_attention_key_of_other_mode(ctx: Context) -> Iterator[Finding]:
    """A key of `sparse_attention` belongs to another mode than the selected one.

    Bad:

        {"train_batch_size": 8, "sparse_attention": {"mode": "fixed", "num_random_blocks": 2}}

    Good:

        {"train_batch_size": 8, "sparse_attention": {"mode": "bigbird", "num_random_blocks": 2}}

    Fixed:

        {"train_batch_size": 8, "sparse_attention": {"mode": "fixed"}}
    """
    section = ctx.data.get("sparse_attention")
    if not isinstance(section, dict):
        return
    mode = section.get("mode", "fixed")
    for key in section if isinstance(mode, str) and mode in _MODES else ():
        modes = [other for other, keys in _MODES.items() if key in keys]
        if modes and mode not in modes:
            yield ctx.at(
                f"sparse_attention.{key}",
                f"`{key}` has no effect in mode {quote_value(mode)}: it belongs to {join_alternatives(modes, 'and')}",
                help=f"remove it, or set `mode` to {join_alternatives(modes)}",
                part="key",
                fix=remove_key(("sparse_attention", key)),
            )

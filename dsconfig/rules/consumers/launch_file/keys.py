"""Keys that Accelerate does not know."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from dsconfig.consumers.accelerate_launch_file import (
    BLOCK,
    BLOCK_KEYS,
    LINK,
    block,
    came,
    known_to,
    root_keys,
    went,
)
from dsconfig.core.diagnostic import Fix, Rename
from dsconfig.core.json_types import Json
from dsconfig.core.wording.did_you_mean import Lexicon, lexicon, nearest
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.consumers.launch_file._block import in_block

_CONFIG = "accelerate commands/config/config_args.py:BaseConfig.from_yaml_file"


@rule("DSC820", effect="rejected", source=_CONFIG, reads="launch file")
def unknown_launch_key(ctx: Context) -> Iterator[Finding]:
    """Accelerate does not know a key of its launch file.

    At the top of the file `accelerate launch` refuses what it does not know. In the block `deepspeed_config`
    it drops it silently: the block is not a DeepSpeed config, and takes none of DeepSpeed's keys but two. The
    others belong in a JSON file that `deepspeed_config_file` names.

    Bad:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3,
        "offlaod_param_device": "cpu"}}

    Good:

        {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3,
        "offload_param_device": "cpu"}}
    """
    known, inner = root_keys(ctx.version), known_to(BLOCK_KEYS, ctx.version)
    for key in ctx.data:
        if key not in known:
            yield ctx.at(
                (key,),
                f"`{key}` is not a key of Accelerate's launch file{_of(ctx, key)}: `accelerate launch` "
                "refuses the file",
                help=_instead_of(key, known),
                part="key",
            )
    for key, value in block(ctx.data).items():
        # Whatever else the command line of `accelerate launch` knows is taken from the block too.
        if key in inner or key in known or key in _OPTIONS:
            continue
        meant = _nearest(key, value, inner)
        yield ctx.at(
            in_block(key),
            f"`{key}` is not a key of Accelerate's `{BLOCK}`{_of(ctx, key)}: it is dropped silently",
            help=f"did you mean `{meant}`?"
            if meant
            else f"remove it, or use Accelerate {came(key)} or newer"
            if came(key)
            else f"write it into a DeepSpeed config in JSON, and name that by `{LINK}`, alone in the block",
            effect="ignored",
            part="key",
            fix=Fix(f"rename to `{meant}`", (Rename(in_block(key), meant),))
            if meant and meant not in block(ctx.data)
            else None,
        )


_OPTIONS = frozenset(
    {"use_deepspeed", "multi_gpu", "cpu", "num_cpu_threads_per_process", "max_restarts", "env"}
)


def _of(ctx: Context, key: str) -> str:
    """The version, where others know the key."""
    return f" in {ctx.version}" if ctx.version and (came(key) or went(key)) else ""


def _instead_of(key: str, known: frozenset[str]) -> str:
    """What to do about a key of the root that is not one of those known."""
    if key in BLOCK_KEYS:
        return f"remove it, or move it into `{BLOCK}`"
    if since := came(key):
        return f"remove it, or use Accelerate {since} or newer"
    if until := went(key):
        return f"remove it: Accelerate {until} gave it up"
    meant = _nearest(key, None, known)
    return f"did you mean `{meant}`?" if meant else "remove it"


def _nearest(key: str, value: Json, known: frozenset[str]) -> str | None:
    """The one key that may be meant; the block's keys hold neither objects nor lists."""
    return None if isinstance(value, dict | list) else nearest(str(key), _lexicon(known))


@cache
def _lexicon(words: frozenset[str]) -> Lexicon:
    return lexicon(sorted(words))

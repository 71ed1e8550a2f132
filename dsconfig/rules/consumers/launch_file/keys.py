"""Keys that Accelerate does not know."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from dsconfig.consumers.launch_file import BLOCK, BLOCK_KEYS, LINK, ROOT_KEYS, block
from dsconfig.diagnostic import Fix, Rename
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.json_types import Json
from dsconfig.rules.consumers.launch_file._block import in_block
from dsconfig.words.spelling import Lexicon, lexicon, nearest

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
    root, inner = _known()
    for key in ctx.data:
        if key not in ROOT_KEYS:
            meant = _nearest(key, None, root)
            asked = f"did you mean `{meant}`?" if meant else "remove it"
            yield ctx.at(
                (key,),
                f"`{key}` is not a key of Accelerate's launch file: `accelerate launch` refuses the file",
                help=f"remove it, or move it into `{BLOCK}`" if key in BLOCK_KEYS else asked,
                part="key",
            )
    for key, value in block(ctx.data).items():
        # Whatever else the command line of `accelerate launch` knows is taken from the block too.
        if key in BLOCK_KEYS or key in ROOT_KEYS or key in _OPTIONS:
            continue
        meant = _nearest(key, value, inner)
        yield ctx.at(
            in_block(key),
            f"`{key}` is not a key of Accelerate's `{BLOCK}`: it is dropped silently",
            help=f"did you mean `{meant}`?"
            if meant
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


def _nearest(key: str, value: Json, known: Lexicon) -> str | None:
    """The one key that may be meant; the block's keys hold neither objects nor lists."""
    return None if isinstance(value, dict | list) else nearest(str(key), known)


@cache
def _known() -> tuple[Lexicon, Lexicon]:
    """The keys at the top, and those of the block."""
    return lexicon(sorted(ROOT_KEYS)), lexicon(sorted(BLOCK_KEYS))

"""Keys that Accelerate does not know."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.consumers.launch_file import BLOCK, BLOCK_KEYS, LINK, ROOT_KEYS, block
from dsconfig.diagnostic import Fix, Rename
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
    for key in ctx.data:
        if key not in ROOT_KEYS:
            inside = f", or move it into `{BLOCK}`" if key in BLOCK_KEYS else ""
            yield ctx.at(
                (key,),
                f"`{key}` is not a key of Accelerate's launch file: `accelerate launch` refuses the file",
                help=f"remove it{inside}" if inside else _meant(key, ROOT_KEYS) or "remove it",
                part="key",
            )
    for key in block(ctx.data):
        # Whatever else the command line of `accelerate launch` knows is taken from the block too.
        if key in BLOCK_KEYS or key in ROOT_KEYS or key in _OPTIONS:
            continue
        near = _nearest(key, BLOCK_KEYS)
        yield ctx.at(
            in_block(key),
            f"`{key}` is not a key of Accelerate's `{BLOCK}`: it is dropped silently",
            help=_meant(key, BLOCK_KEYS)
            or f"write it into a DeepSpeed config in JSON, and name that by `{LINK}`, alone in the block",
            effect="ignored",
            part="key",
            fix=Fix(f"rename to `{near}`", (Rename(in_block(key), near),))
            if near and near not in block(ctx.data)
            else None,
        )


_OPTIONS = frozenset(
    {"use_deepspeed", "multi_gpu", "cpu", "num_cpu_threads_per_process", "max_restarts", "env"}
)


def _nearest(word: str, known: frozenset[str]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(str(word), sorted(known), 1, 0.8)), None)


def _meant(word: str, known: frozenset[str]) -> str | None:
    near = _nearest(word, known)
    return f"did you mean `{near}`?" if near else None

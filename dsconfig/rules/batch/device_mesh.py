"""`data_parallel_size` × `sequence_parallel_size`, of which DeepSpeed builds a device mesh."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._parallel_sizes import device_mesh, size_of

_MESH = "__init__.py:initialize"
_SEQUENCE, _DATA = "sequence_parallel_size", "data_parallel_size"


@rule("DSC210", effect="ignored", since="0.15.0", source=_MESH)
def parallel_size_not_read(ctx: Context) -> Iterator[Finding]:
    """`data_parallel_size` or `sequence_parallel_size` stands where nobody reads it.

    The two together make DeepSpeed build a device mesh. `data_parallel_size` alone does nothing;
    `sequence_parallel_size` alone does nothing before 0.17.0, and later divides the ranks, but only in a
    dict. Of a file DeepSpeed looked for both keys in the path instead of the content up to 0.18.5, and does
    so to this day where a script hands the path to `DeepSpeedConfig` or `zero.Init`.

    Bad:

        {"train_batch_size": 8, "data_parallel_size": 4}

    Good, as a dict:

        {"train_batch_size": 8, "data_parallel_size": 4, "sequence_parallel_size": 2}
    """
    if device_mesh(ctx) or not (ctx.has(_DATA) or ctx.has(_SEQUENCE)):
        return
    if not ctx.has(_DATA) and ctx.since("0.18.6" if ctx.from_file else "0.17.0"):
        return
    for key, other in ((_DATA, _SEQUENCE), (_SEQUENCE, _DATA)):
        if not ctx.has(key):
            continue
        alone = not ctx.has(other) and (key == _DATA or ctx.before("0.17.0"))
        yield ctx.at(
            key,
            f"`{key}` has no effect "
            + (
                f"without `{other}`"
                if alone
                else "in a file: DeepSpeed looks for it in the path, not the content"
            ),
            help=f"add `{other}`, or remove `{key}`" if alone else "load the file and hand over the dict",
            part="key",
            fix=removal((key,), safe=alone),
        )


@rule("DSC211", effect="crashes", since="0.15.0", source=_MESH)
def device_mesh_larger_than_world(ctx: Context) -> Iterator[Finding]:
    """`data_parallel_size` × `sequence_parallel_size` is more than there are ranks.

    DeepSpeed builds a device mesh of the two; PyTorch says "Mesh should not be bigger than default world
    size" and stops.

    Bad, as a dict, world size 2:

        {"train_batch_size": 8, "data_parallel_size": 2, "sequence_parallel_size": 2}

    Good, as a dict, world size 4:

        {"train_batch_size": 8, "data_parallel_size": 2, "sequence_parallel_size": 2}
    """
    if ctx.world_size is None or not device_mesh(ctx):
        return
    data, sequence = size_of(ctx, _DATA), size_of(ctx, _SEQUENCE)
    if data is not None and sequence is not None and data * sequence > ctx.world_size:
        yield ctx.at(
            _DATA,
            f"`{_DATA}` × `{_SEQUENCE}` = {data} × {sequence} = {data * sequence}, but there "
            f"{'is 1 rank' if ctx.world_size == 1 else f'are {ctx.world_size} ranks'}",
            help=f"run on {data * sequence} ranks, or choose two sizes whose product is {ctx.world_size}",
            related=[("the other size is set here", _SEQUENCE)],
        )

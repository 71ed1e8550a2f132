"""ZenFlow: an offloaded optimizer that does not make the GPU wait."""

from typing import Annotated, Literal

from pydantic import Field

from dsconfig.model.annotations import Auto, Fraction, PositiveInt
from dsconfig.model.key import Key, Reads, Was
from dsconfig.model.section import Section


class ZenFlow(Section):
    """Update the important gradient columns on the GPU at once, and the others later on the CPU."""

    SOURCE = "runtime/zenflow/zenflow_config.py:ZenFlowConfig"
    READS = (Reads("pydantic", since="0.17.5", unknown="rejected", drops_auto=True),)

    topk_ratio: Annotated[
        Annotated[float, Field(gt=0, lt=1)], Key(since="0.17.5", was=(Was("0.19.5", Fraction),))
    ] = 0.1
    """Share of gradient columns that count as important; more of them cost GPU memory and time."""
    select_strategy: Annotated[
        Literal["auto", "step", "epoch"],
        Key(
            since="0.17.5",
            auto_is_value=True,
            means=(
                ("auto", "DeepSpeed chooses"),
                ("step", "counts steps"),
                ("epoch", "counts epochs"),
            ),
        ),
    ] = "auto"
    """What the interval between two selections of columns is counted in."""
    select_interval: Annotated[
        int | Auto, Key(since="0.17.5", auto_is_value=True, means=(("auto", "DeepSpeed chooses"),))
    ] = "auto"
    """How many steps or epochs a selection holds."""
    update_interval: Annotated[
        PositiveInt | Auto,
        Key(
            since="0.17.5",
            unit="steps",
            auto_is_value=True,
            was=(Was("0.19.5", int | Auto),),
            means=(("auto", "adapts as training goes"),),
        ),
    ] = "auto"
    """Steps for which unimportant gradients gather before they are applied; longer means less traffic and
    staler weights."""
    overlap_step: Annotated[bool, Key(since="0.17.5")] = False
    """Let the CPU update run while the GPU goes on with the next batch."""
    offload: Annotated[bool, Key(since="0.17.5")] = False
    """Keep the state of the important columns on the CPU too; saves GPU memory, costs transfers."""
    auto_ratio: Annotated[Fraction, Key(since="0.17.5")] = 0.99
    """Threshold by which "auto" picks the update interval."""
    full_warm_up_rounds: Annotated[int, Key(since="0.17.5", unit="rounds")] = 0
    """First rounds in which every gradient is applied at once."""
    pt_reserved_cores_perc: Annotated[Fraction, Key(since="0.17.6")] = 0.5
    """Share of the CPU cores that stays with PyTorch; the others run the update."""
    steps_per_epoch: Annotated[int | None, Key(since="0.17.5", internal=True)] = None
    """Filled in by the engine as it starts."""

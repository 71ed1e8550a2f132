"""The optimizer that DeepSpeed builds, and the params that each type of it takes."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, SerializeAsAny

from dsconfig.model.annotations import FreeForm
from dsconfig.model.key import ANYTHING, Key
from dsconfig.model.optimizer.adam import AdagradParams, AdamParams, AdamWParams
from dsconfig.model.optimizer.lamb import LambParams
from dsconfig.model.optimizer.lion import LionParams
from dsconfig.model.optimizer.muon import MuonParams
from dsconfig.model.optimizer.one_bit import OneBitAdamParams, OneBitLambParams, ZeroOneAdamParams
from dsconfig.model.optimizer.params import OptimizerParams
from dsconfig.model.section import RootKeys, Section


@dataclass(frozen=True, slots=True)
class OptimizerType:
    """A name that DeepSpeed itself knows, in any case of letters."""

    name: str
    params: type[OptimizerParams] | None
    """None: free-form, the arguments of a class outside DeepSpeed."""
    since: str
    gpu: str
    """The class that the engine builds; `torch_adam` has it take PyTorch's instead."""
    cpu: str
    """The class that it builds under offload."""
    until: str | None = None
    required: tuple[str, ...] = ()
    notes: str = ""


OPTIMIZERS: tuple[OptimizerType, ...] = (
    OptimizerType(
        "Adam",
        AdamParams,
        "0.1.0",
        "FusedAdam",
        "DeepSpeedCPUAdam",
        notes="AdamW unless adam_w_mode is false",
    ),
    OptimizerType("AdamW", AdamWParams, "0.3.11", "FusedAdam", "DeepSpeedCPUAdam"),
    OptimizerType("Adagrad", AdagradParams, "0.5.5", "torch.optim.Adagrad", "DeepSpeedCPUAdagrad"),
    OptimizerType(
        "Lamb", LambParams, "0.1.0", "FusedLamb", "FusedLamb", notes="CUDA only; untested with ZeRO"
    ),
    OptimizerType("Lion", LionParams, "0.11.0", "FusedLion", "DeepSpeedCPULion"),
    OptimizerType(
        "Muon", MuonParams, "0.17.6", "MuonWithAuxAdam", "MuonWithAuxAdam", notes="ignores unknown params"
    ),
    *(
        OptimizerType(
            name,
            None,
            "0.10.2",
            f"mup.{name}",
            f"mup.{name}",
            notes="needs the mup package; untested with ZeRO",
        )
        for name in ("MuAdam", "MuAdamW", "MuSGD")
    ),
    OptimizerType(
        "OneBitAdam", OneBitAdamParams, "0.3.0", "OnebitAdam", "OnebitAdam", "0.19.6", notes="refuses ZeRO"
    ),
    OptimizerType(
        "OneBitLamb", OneBitLambParams, "0.3.16", "OnebitLamb", "OnebitLamb", "0.19.6", notes="refuses ZeRO"
    ),
    OptimizerType(
        "ZeroOneAdam",
        ZeroOneAdamParams,
        "0.6.1",
        "ZeroOneAdam",
        "ZeroOneAdam",
        "0.19.6",
        notes="refuses ZeRO",
    ),
)
"""The types that DeepSpeed knows; any other name is looked up in `torch.optim`, letter by letter."""


class Optimizer(Section):
    """The optimizer that the engine builds when `deepspeed.initialize` is given none."""

    SOURCE = "runtime/config.py:get_optimizer_name"

    type: Annotated[
        str | None,
        Key(
            since="0.1.0",
            known=tuple(kind.name for kind in OPTIMIZERS),
            fold_case=True,
            miswritten=("optimizer_name",),
        ),
    ] = None
    """Name of the optimizer: one of DeepSpeed's own in any case of letters, or a class of `torch.optim`,
    written exactly so. Without it the whole section has no effect."""
    params: Annotated[
        SerializeAsAny[OptimizerParams] | FreeForm | None,
        Key(
            since="0.1.0",
            source="runtime/config.py:get_optimizer_params",
            takes=(ANYTHING,),
            opened_by="optimizer.type",
        ),
    ] = None
    """Arguments for the optimizer: the params class of its type, or, for a class of `torch.optim` or `mup`,
    a free mapping with that class's own keywords."""
    legacy_fusion: Annotated[
        bool, Key(since="0.1.0", source="runtime/config.py:get_optimizer_legacy_fusion")
    ] = False
    """Flatten parameters the way the first fp16 wrapper did."""


class OptimizerKeys(RootKeys):
    """The root key of the optimizer."""

    optimizer: Annotated[Optimizer, Key(since="0.1.0", source="runtime/config.py:get_optimizer_name")] = (
        Field(default_factory=Optimizer)
    )
    """The optimizer that DeepSpeed builds, unless the script passes one."""

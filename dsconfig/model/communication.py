"""Root keys about communication between ranks: data types, scaling and reduction of gradients."""

from typing import Annotated, Literal, TypeAlias

from dsconfig.model.key import BooleanReplacement, EarlierType, Key
from dsconfig.model.section import RootKeys

_FORMATS = (
    ("fp16", "IEEE half precision"),
    ("bf16", "bfloat16: the range of fp32 with less precision"),
    ("bfp16", "bfloat16, misspelled as in early releases"),
    ("fp32", "full precision: exact, twice the communication"),
)


WireType: TypeAlias = Literal["fp16", "bf16", "fp32"]
EarlyWireType: TypeAlias = Literal["fp16", "bfp16", "fp32"]
"""Releases up to 0.14.0 misspell bfloat16 as `bfp16`."""


class CommunicationRootKeys(RootKeys):
    """Root keys about collectives."""

    communication_data_type: Annotated[
        WireType | None,
        Key(
            since="0.5.8",
            source="runtime/config.py:get_communication_data_type",
            fold_case=True,
            was=(EarlierType("0.14.0", EarlyWireType | None),),
            wrong_type="rejected",
            means=_FORMATS,
        ),
    ] = None
    """Data type in which gradients are reduced. Half precision halves the communication volume, fp32 loses no
    precision; null follows the training precision."""
    fp32_allreduce: Annotated[
        bool,
        Key(
            since="0.1.0",
            until="0.5.7",
            source="runtime/config.py:get_allreduce_always_fp32",
            replaced_by="communication_data_type",
            rewrite=BooleanReplacement("fp32"),
        ),
    ] = False
    """Reduce gradients in fp32, whatever the training precision."""
    seq_parallel_communication_data_type: Annotated[
        WireType | None,
        Key(
            since="0.16.5",
            source="runtime/config.py:get_communication_data_type",
            fold_case=True,
            wrong_type="rejected",
            means=_FORMATS,
        ),
    ] = "fp32"
    """Data type in which gradients are reduced over the ranks of a sequence-parallel group."""
    seq_parallel_comm_data_type: Annotated[
        WireType | None,
        Key(
            since="0.11.2",
            until="0.16.4",
            source="runtime/config.py:get_communication_data_type",
            replaced_by="seq_parallel_communication_data_type",
            rewrite="rename",
            fold_case=True,
            was=(EarlierType("0.14.0", EarlyWireType | None),),
            wrong_type="rejected",
            means=_FORMATS,
        ),
    ] = "fp32"
    """Earlier name of `seq_parallel_communication_data_type`."""
    prescale_gradients: Annotated[
        bool, Key(since="0.1.0", source="runtime/config.py:get_prescale_gradients")
    ] = False
    """Divide gradients before the sum over the ranks instead of after it. Avoids fp16 overflow on many ranks,
    but small gradients can underflow."""
    gradient_predivide_factor: Annotated[
        float, Key(since="0.2.0", source="runtime/config.py:get_gradient_predivide_factor")
    ] = 1.0
    """With `prescale_gradients`: divisor applied before the sum over the ranks; the rest of the division
    follows the sum."""
    gradient_allreduce_op: Annotated[
        Literal["mean", "sum"],
        Key(
            since="0.19.6",
            source="runtime/config.py:get_gradient_allreduce_op",
            fold_case=True,
            wrong_type="rejected",
            means=(
                ("mean", "the average over the ranks"),
                ("sum", "the sum; the script has to scale it"),
            ),
        ),
    ] = "mean"
    """Average gradients over the data-parallel ranks, or leave them summed. DeepSpeed rejects `"sum"` with
    ZeRO stage 3, ZenFlow and DeepCompile."""
    disable_allgather: Annotated[
        bool, Key(since="0.1.0", source="runtime/config.py:get_disable_allgather", unread=True)
    ] = False
    """Replaced the all-gather of parameters with broadcasts in early releases. Later releases accept the key
    and ignore it."""
    allgather_size: Annotated[
        int,
        Key(
            since="0.1.0",
            source="runtime/zero/config.py:read_zero_config_deprecated",
            deprecated="0.2.0",
            replaced_by="zero_optimization.allgather_bucket_size",
            miswritten=("zero_all_gather_size",),
            unit="elements",
        ),
    ] = 500_000_000
    """All-gather bucket size for the boolean form of `zero_optimization`; read only if `zero_optimization` is
    `true`."""
    sparse_gradients: Annotated[
        bool,
        Key(
            since="0.1.0",
            until="0.19.7",
            refused_from="0.19.8",
            source="runtime/config.py:get_sparse_gradients_enabled",
        ),
    ] = False
    """Reduce the gradients of `torch.nn.Embedding` as sparse tensors (indices and rows)."""
    use_data_before_expert_parallelism: Annotated[
        bool, Key(since="0.12.4", source="runtime/config.py:get_expert_data_topo_config")
    ] = False
    """Rank layout for mixture-of-experts models: consecutive ranks form data-parallel groups first and
    expert-parallel groups second, instead of the reverse."""

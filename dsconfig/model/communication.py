"""How gradients and activations travel between ranks: the root keys about communication."""

from typing import Annotated, Literal, TypeAlias

from dsconfig.model.key import Key, Switch, Was
from dsconfig.model.section import RootKeys

_FORMATS = (
    ("fp16", "IEEE half precision"),
    ("bf16", "bfloat16: the range of fp32, fewer digits"),
    ("bfp16", "bfloat16, by the name that the first releases gave it"),
    ("fp32", "full precision: exact, and twice the traffic"),
)


WireType: TypeAlias = Literal["fp16", "bf16", "fp32"]
EarlyWireType: TypeAlias = Literal["fp16", "bfp16", "fp32"]
"""Up to 0.14.0 the word for bfloat16 was misspelt."""


class CommunicationKeys(RootKeys):
    """Root keys about collectives."""

    communication_data_type: Annotated[
        WireType | None,
        Key(
            since="0.5.8",
            source="runtime/config.py:get_communication_data_type",
            fold_case=True,
            was=(Was("0.14.0", EarlyWireType | None),),
            wrong_type="rejected",
            means=_FORMATS,
        ),
    ] = None
    """Number format in which gradients are reduced. A half-precision one halves the traffic, fp32 keeps
    every bit; null follows the training precision."""
    fp32_allreduce: Annotated[
        bool,
        Key(
            since="0.1.0",
            until="0.5.7",
            source="runtime/config.py:get_allreduce_always_fp32",
            replaced_by="communication_data_type",
            rewrite=Switch("fp32"),
        ),
    ] = False
    """Reduce gradients in fp32 whatever the training precision."""
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
    """Number format for reducing gradients over the ranks that share a sequence."""
    seq_parallel_comm_data_type: Annotated[
        WireType | None,
        Key(
            since="0.11.2",
            until="0.16.4",
            source="runtime/config.py:get_communication_data_type",
            replaced_by="seq_parallel_communication_data_type",
            rewrite="rename",
            fold_case=True,
            was=(Was("0.14.0", EarlyWireType | None),),
            wrong_type="rejected",
            means=_FORMATS,
        ),
    ] = "fp32"
    """First name of `seq_parallel_communication_data_type`."""
    prescale_gradients: Annotated[
        bool, Key(since="0.1.0", source="runtime/config.py:get_prescale_gradients")
    ] = False
    """Divide gradients before they are summed over the ranks instead of after: no overflow in fp16 on many
    ranks, at the price of small gradients that vanish."""
    gradient_predivide_factor: Annotated[
        float, Key(since="0.2.0", source="runtime/config.py:get_gradient_predivide_factor")
    ] = 1.0
    """With `prescale_gradients`, how much of the division comes before the sum; the rest comes after it."""
    gradient_allreduce_op: Annotated[
        Literal["mean", "sum"],
        Key(
            since="0.19.6",
            source="runtime/config.py:get_gradient_allreduce_op",
            fold_case=True,
            wrong_type="rejected",
            means=(
                ("mean", "the average over the ranks"),
                ("sum", "the sum, which the script scales"),
            ),
        ),
    ] = "mean"
    """Average gradients over the data-parallel ranks, or leave them summed. A sum is refused with ZeRO stage
    3, ZenFlow and DeepCompile."""
    disable_allgather: Annotated[
        bool, Key(since="0.1.0", source="runtime/config.py:get_disable_allgather", unread=True)
    ] = False
    """Once replaced the all-gather of parameters by broadcasts; still taken, no longer looked at."""
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
    """All-gather bucket of the boolean form of `zero_optimization`; read only beside `"zero_optimization":
    true`."""
    sparse_gradients: Annotated[
        bool,
        Key(
            since="0.1.0",
            until="0.19.7",
            refused_from="0.19.8",
            source="runtime/config.py:get_sparse_gradients_enabled",
        ),
    ] = False
    """Send the gradients of `torch.nn.Embedding` as indices and rows instead of whole."""
    use_data_before_expert_parallelism: Annotated[
        bool, Key(since="0.12.4", source="runtime/config.py:get_expert_data_topo_config")
    ] = False
    """Rank layout for mixtures of experts: neighbours are data-parallel first, expert-parallel second,
    instead of the other way round."""

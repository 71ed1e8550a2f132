"""Data routing: random layerwise token dropping (random-LTD)."""

from typing import Annotated, Literal

from pydantic import Field

from dsconfig.model.annotations import ABSENT
from dsconfig.model.key import Key, Reads, Takes
from dsconfig.model.section import Section

_ANY_SHAPE = (Takes(("null", "true", "false", "[]", "list", "string", "number", "auto")),)
_KEPT = (Reads("hand", since="0.8.0", unknown="kept"),)


class TokenScheduleConfig(Section):
    """Numbers of the schedule; `require_steps` and `seq_per_step` are needed."""

    SOURCE = "runtime/data_pipeline/data_routing/scheduler.py:BaseScheduler.__fixed_root_get_value"
    READS = _KEPT

    require_steps: Annotated[int, Key(since="0.8.0", unit="steps")] = ABSENT
    """Steps until all tokens are kept."""
    seq_per_step: Annotated[int, Key(since="0.8.0", unit="tokens")] = ABSENT
    """The kept length is rounded down to a multiple of this; 8 or 16 suits tensor cores."""
    root_degree: Annotated[int, Key(since="0.8.0", unread=True)] = ABSENT
    """Degree of a root schedule that is not offered."""


class TokenSchedule(Section):
    """How many tokens the dropping layers keep; all keys are needed when random-LTD is on."""

    SOURCE = "runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.reset_to_init"
    READS = _KEPT

    min_value: Annotated[int, Key(since="0.8.0", unit="tokens")] = ABSENT
    """Tokens kept at the start; fewer save more and disturb more."""
    max_value: Annotated[int, Key(since="0.8.0", unit="tokens")] = ABSENT
    """Tokens kept in the end, usually the whole sequence."""
    schedule_type: Annotated[
        Literal["fixed_linear"], Key(since="0.8.0", means=(("fixed_linear", "rises evenly"),))
    ] = ABSENT
    """Shape of the schedule; only a straight line is offered."""
    schedule_config: Annotated[TokenScheduleConfig, Key(since="0.8.0", takes=_ANY_SHAPE)] = Field(
        default_factory=TokenScheduleConfig
    )
    """Length and step size of the schedule."""


class LayerTokenLearningRate(Section):
    """A learning rate by consumed layer tokens, never finished."""

    SOURCE = "runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__"
    READS = _KEPT

    enabled: Annotated[bool, Key(since="0.8.0")] = False
    """Must be false: true ends in NotImplementedError. Must be given when the section is."""
    total_layer_tokens: Annotated[
        int,
        Key(
            since="0.8.0",
            unread=True,
            source="runtime/data_pipeline/constants.py:RANDOM_LTD_TOTAL_LAYER_TOKENS",
        ),
    ] = ABSENT
    """Tokens times layers that the whole training computes; never looked at."""
    warmup_type: Annotated[
        str,
        Key(since="0.8.0", unread=True, source="runtime/data_pipeline/constants.py:RANDOM_LTD_WARMUP_TYPE"),
    ] = ABSENT
    """Shape of the warm-up; never looked at."""
    warmup_layer_tokens: Annotated[
        int,
        Key(
            since="0.8.0",
            unread=True,
            source="runtime/data_pipeline/constants.py:RANDOM_LTD_WARMUP_LAYER_TOKENS",
        ),
    ] = ABSENT
    """Tokens times layers that the warm-up lasts; never looked at."""


class RandomLtd(Section):
    """Middle layers see a random part of the tokens. Keys without default are needed when it is on."""

    SOURCE = "runtime/data_pipeline/data_routing/basic_layer.py:RandomLayerTokenDrop.init_config"
    READS = _KEPT

    enabled: Annotated[
        bool, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_random_ltd_enabled")
    ] = False
    """Let the layers of `random_ltd_layer_id` see only a random part of the tokens."""
    total_layer_num: Annotated[
        int,
        Key(
            since="0.8.0",
            source="runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__",
        ),
    ] = ABSENT
    """Layers of the model, to count the tokens that were computed."""
    random_ltd_layer_num: Annotated[
        int,
        Key(
            since="0.8.0",
            source="runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__",
        ),
    ] = ABSENT
    """Layers that drop tokens; as many as `random_ltd_layer_id` names."""
    random_ltd_layer_id: Annotated[
        list[int], Key(since="0.8.0", source="runtime/engine.py:DeepSpeedEngine.random_ltd_initialize")
    ] = ABSENT
    """Which layers drop tokens; leaving out the first and the last keeps quality."""
    model_mask_name: Annotated[str | None, Key(since="0.8.0")] = ABSENT
    """Name of the attention mask among a layer's arguments; null if it has none."""
    model_type: Annotated[
        Literal["decoder", "encoder"],
        Key(
            since="0.8.0",
            means=(
                ("decoder", "a decoder, such as GPT"),
                ("encoder", "an encoder, such as BERT"),
            ),
        ),
    ] = ABSENT
    """Kind of model, for the way masks are cut."""
    hidden_state_order: Annotated[
        Literal["batch_seq_dim", "seq_batch_dim"],
        Key(
            since="0.8.0",
            means=(
                ("batch_seq_dim", "batch first"),
                ("seq_batch_dim", "sequence first"),
            ),
        ),
    ] = ABSENT
    """Order of the axes of hidden states."""
    random_ltd_schedule: Annotated[
        TokenSchedule,
        Key(
            since="0.8.0",
            source="runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__",
            takes=_ANY_SHAPE,
        ),
    ] = Field(default_factory=TokenSchedule)
    """How many tokens are kept over time."""
    layer_token_lr_schedule: Annotated[
        LayerTokenLearningRate,
        Key(
            since="0.8.0",
            source="runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__",
            takes=_ANY_SHAPE,
        ),
    ] = Field(default_factory=LayerTokenLearningRate)
    """A learning rate by consumed layer tokens. Unfinished: leave it out, or off."""


class DataRouting(Section):
    """Routing techniques."""

    SOURCE = "runtime/data_pipeline/config.py:get_data_routing"

    enabled: Annotated[
        bool, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_routing_enabled")
    ] = False
    """Meant to turn routing techniques on; `random_ltd` has the switch that counts."""
    random_ltd: Annotated[
        RandomLtd, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_random_ltd_enabled")
    ] = Field(default_factory=RandomLtd)
    """Random token dropping."""

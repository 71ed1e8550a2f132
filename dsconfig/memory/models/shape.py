"""The shape of a model: what decides how many parameters it has and what its pass keeps."""

from __future__ import annotations

from typing import NamedTuple

from dsconfig.memory.graph import Adapter, Tape
from dsconfig.memory.models.decoder_variants import LLAMA, STYLES, Style
from dsconfig.memory.tensor_sharding import Sharing


class Shape(NamedTuple):
    """A model's sizes; what a family has no use for stays as it is here."""

    family: str
    """bert, decoder, gpt2, gpt_neox, opt, vit, plain."""
    hidden: int
    layers: int
    wide: int
    """Elements of the hidden layer of an MLP."""
    heads: int = 1
    key_heads: int = 1
    head_size: int = 0
    vocabulary: int = 0
    tied: bool = False
    query_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    experts: int = 0
    chosen: int = 0
    """Experts that a token goes through."""
    expert_wide: int = 0
    """Elements of the hidden layer of an expert."""
    shared_wide: int = 0
    """The same of the expert that all tokens go through."""
    dense: tuple[int, ...] = ()
    """Numbers of layers with an MLP where others have experts."""
    window: int = 0
    """Tokens that attention sees in some layers; 0: all."""
    windowed: tuple[int, ...] = ()
    """Numbers of those layers."""
    turned: int = 0
    """Elements of a head that are turned by its position; 0: all."""
    caps_scores: bool = False
    caps_logits: bool = False
    """Whether scores of attention, and logits, go through a tanh."""
    positions: int = 0
    """Places that a token can have; 0: any."""
    spare: int = 0
    """Rows of the table of places that no token has."""
    kinds: int = 0
    """Kinds of sentences (`type_vocab_size`)."""
    parallel: bool = False
    """Whether attention and MLP read the same (GPT-NeoX)."""
    image: int = 0
    patch: int = 0
    channels: int = 3
    labels: int = 2
    dropout: float = 0.0
    attention_dropout: float = 0.0
    trained: float = 1.0
    """Of a stack of plain blocks, the part that is trained, from the input on."""
    name: str = ""
    parts: int = 1
    """Ranks that share the head; heads and the MLP's width are those of one already."""

    @property
    def style(self) -> Style:
        """Of a decoder, what tells it from Llama."""
        return STYLES.get(self.name, LLAMA)


class Work(NamedTuple):
    """What one micro batch is, and how it is computed."""

    micro: int
    length: int
    width: int
    """Bytes of a weight in the model."""
    autocast: bool = False
    attention: str = "sdpa"
    checkpointing: bool = False
    keeps_inputs: bool = False
    """Whether a frozen layer keeps its input too (stage 3's `LinearFunctionForZeroStage3`)."""
    adapter: Adapter | None = None
    tensor: Sharing = Sharing()
    """Ranks that share each linear layer."""

    sequence: int = 1
    """Ranks that share each sequence (Ulysses); `length` is that of a whole one."""
    experts: int = 0
    """Ranks that share the experts by AutoEP; 0 where it is off."""
    imbalance: float = 1.0
    """Tokens that this rank's experts get, in times of those that it sends."""
    on_cpu: bool = False
    """Whether it is computed on a CPU, where torch casts the operands of some operations first."""
    computes: bool = True
    """Whether there is a pass at all, or only the parameters are asked for."""

    @property
    def part(self) -> int:
        """Tokens of a sequence that are this rank's."""
        return self.length // self.sequence

    @property
    def starts_gradients(self) -> bool:
        """Whether a frozen embedding's output takes gradients (PEFT's `enable_input_require_grads`)."""
        return self.adapter is not None and self.checkpointing

    def tape(self) -> Tape:
        """An empty tape for such work."""
        return Tape(self.width, self.autocast, self.keeps_inputs, self.adapter, self.on_cpu)

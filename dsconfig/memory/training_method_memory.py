"""The models, sequences and generation that a training method adds to plain fine-tuning."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.autograd_graph import TrainingObjective
from dsconfig.memory.models.architecture import Architecture, MicroBatch
from dsconfig.memory.models.record_pass_by_family import weights_of

if TYPE_CHECKING:
    from dsconfig.memory.autograd_graph import ObjectiveKind
    from dsconfig.memory.engines.engine_setup import EngineSetup

FROZEN, VALUE, VLLM, GENERATION = "frozen models", "value model", "vLLM", "generation"


class TrainerTraits(NamedTuple):
    """The properties of a TRL trainer that determine its memory."""

    sequences_per_sample: int = 1
    """Number of sequences per sample that pass through the model together, such as a chosen and a rejected answer."""
    has_reference: bool = False
    """Whether a frozen copy of the model stays loaded, unless only adapters are trained."""
    needs_frozen: str = ""
    """Name of a frozen model that only the user can specify: `reward` or `teacher`."""
    has_value_model: bool = False
    """Whether a second model of the same size is trained (TRL's `PolicyAndValueWrapper`)."""
    generates: bool = False
    """Whether answers are generated during training."""
    objective: ObjectiveKind = "likelihood"
    """Kind of loss that the training method computes from the logits."""

    def training_objective(self, *, casts_logits: bool) -> TrainingObjective:
        """Return the loss; with `casts_logits`, preference losses first cast logits to fp32, as in LLaMA-Factory."""
        kind = self.objective
        if casts_logits and kind in ("preference", "likelihood_and_preference"):
            kind = "preference_in_fp32"
        runs_reference = self.has_reference and kind in ("preference", "preference_in_fp32")
        return TrainingObjective(kind, runs_reference, 1 + self.has_value_model)


TRAINERS = {
    "sft": TrainerTraits(),
    "dpo": TrainerTraits(2, has_reference=True, objective="preference"),
    "kto": TrainerTraits(has_reference=True, objective="preference"),
    "orpo": TrainerTraits(2, objective="likelihood_and_preference"),
    "cpo": TrainerTraits(2, objective="likelihood_and_preference"),
    "simpo": TrainerTraits(2, objective="likelihood_and_preference"),
    "reward": TrainerTraits(2, objective="score"),
    "ppo": TrainerTraits(
        2,
        has_reference=True,
        needs_frozen="reward",
        has_value_model=True,
        generates=True,
        objective="policy_gradient",
    ),
    "grpo": TrainerTraits(has_reference=True, generates=True, objective="policy_gradient"),
    "rloo": TrainerTraits(has_reference=True, generates=True, objective="policy_gradient"),
    "online_dpo": TrainerTraits(
        2, has_reference=True, needs_frozen="reward", generates=True, objective="preference"
    ),
    "gkd": TrainerTraits(needs_frozen="teacher", generates=True, objective="divergence"),
}
"""Training methods by name (trl/trainer/*_trainer.py and trl/experimental; LLaMA-Factory train/*/workflow.py)."""


class TrainerMemory(NamedTuple):
    """Bytes per rank that a training method adds to plain fine-tuning."""

    frozen: int = 0
    """Bytes of frozen models, which stay allocated for the whole run."""
    gathered: int = 0
    """Bytes that a frozen model's forward pass gathers at stage 3, besides the activations of the trained model."""
    vllm: int = 0
    """Bytes that vLLM reserves on the same GPU for the whole run."""
    generation: int = 0
    """Bytes of gathered weights and of the key/value cache while answers are generated."""
    has_value_model: bool = False
    vllm_sleeps: bool = False
    """Whether vLLM has its bytes only while answers are generated."""


NO_EXTRA = TrainerMemory()


def training_method_memory(
    setup: EngineSetup,
    arch: Architecture,
    batch: MicroBatch,
    trainer: TrainerTraits,
    frozen: tuple[Architecture, ...],
    vllm_bytes: int | None,
) -> TrainerMemory:
    """Return the bytes per rank that a training method adds to plain fine-tuning.

    `frozen` are the frozen models other than the reference model. `vllm_bytes` are the bytes that vLLM reserves next to
    training, or None without vLLM.
    """
    models = [*frozen, *([arch] if trainer.has_reference and batch.adapter is None else [])]
    if trainer.has_value_model and batch.adapter is not None:
        models.append(arch)  # the base of the value model, next to that of the policy
    sizes = [setup.itemsize * numel_of(model) for model in models]
    gathered = 0
    if setup.stage == 3:  # frozen models are partitioned as well (`prepare_deepspeed`)
        largest = max(sizes, default=0)
        gathered = min(largest, setup.itemsize * setup.stage3.max_live_parameters)
        sizes = [-(-size // setup.dp_world_size) for size in sizes]
    generation = 0
    if trainer.generates and vllm_bytes is None:
        generation = _generation_bytes(setup, arch, batch, 1 + trainer.has_value_model)
    return TrainerMemory(
        sum(sizes), gathered, vllm_bytes or 0, generation, trainer.has_value_model and batch.adapter is None
    )


def numel_of(arch: Architecture) -> int:
    """Return the number of parameters of a model."""
    return sum(weight.numel for weight in weights_of(arch, 2, False).weights)


def _generation_bytes(setup: EngineSetup, arch: Architecture, batch: MicroBatch, models: int) -> int:
    """Return the bytes of the key/value cache and, at stage 3, of the gathered model during generation.

    The cache holds all answers of a step. Stage 3 gathers the model, as TRL's `ds3_gather_for_generation` does.

    `models` is 2 for PPO, which gathers its policy and value models together (trl models/utils.py,
    `unwrap_model_for_generation`); PPO's answers are half of the sequences.
    """
    head_dim = arch.head_dim or arch.hidden_size // max(1, arch.num_heads)
    sequences = batch.micro_batch_size * setup.gradient_accumulation_steps // models
    tokens = sequences * batch.sequence_length
    cache = 2 * arch.num_layers * arch.num_kv_heads * head_dim * setup.itemsize * tokens
    return cache + (models * setup.itemsize * numel_of(arch) if setup.stage == 3 else 0)

"""Record a language model's logits and the loss that a training method computes from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.memory.layers import cast_tensor, saved_inputs, to_fp32_under_autocast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape, ModelParameter, Module

LOGITS = "logits and loss"


def language_loss(
    tape: ForwardTape,
    head: Module,
    weights: Sequence[ModelParameter],
    x: ActivationTensor,
    rows: int,
    vocabulary: int,
    shards: int = 1,
    softcap: bool = False,
    scaled: bool = False,
    keeps_dtype: bool = False,
) -> None:
    """Record the output projection and the loss, with the LM head sharded over `shards` ranks.

    With `softcap`, logits go through a tanh (Gemma 2); with `scaled`, they are divided by a constant (Granite). With
    `keeps_dtype`, the cross entropy is computed from a shifted copy of the logits in their own dtype.
    """
    itemsize = 2 if tape.autocast else tape.itemsize
    hidden_states = x
    if tape.objective.kind == "score":
        _score(tape, head, weights, x, rows)
        return
    if tape.kernels.loss != "full":
        _loss_without_logits(tape, head, weights, cast_tensor(tape, x, itemsize), rows, vocabulary)
        return
    rows //= tape.objective.sequences_per_language_sequence
    with tape.record_module(head):
        x = cast_tensor(tape, x, itemsize)
        logits = tape.tensor(rows * vocabulary // shards, itemsize, label=LOGITS)
        tape.op([x], logits, saved_inputs(tape, x, weights), weights)
        if shards > 1:  # all-gathered, then concatenated (`GatherFromTensorParallelRegion`)
            gathered = tape.tensor(rows * vocabulary, itemsize, label=LOGITS)
            logits = tape.op([logits], gathered, temporary=gathered.bytes)
    if scaled:
        logits = tape.op([logits], tape.tensor(logits.numel, itemsize, label=LOGITS))
    if softcap:
        count, tanh = logits.numel, tape.tensor(logits.numel, itemsize, label=LOGITS)
        tape.op([tape.op([logits], tape.tensor(count, itemsize, label=LOGITS))], tanh, [tanh])
        logits = tape.op([tanh], tape.tensor(count, itemsize, label=LOGITS))
    if keeps_dtype and tape.objective.kind == "likelihood":
        shifted = tape.op([logits], tape.tensor(logits.numel, logits.itemsize, label=LOGITS))
        loss_in_logits_dtype(tape, shifted)
        tape.keep_alive(hidden_states, logits)
        return
    _OBJECTIVES[tape.objective.kind](tape, hidden_states, logits, rows)


CHUNK = 256
"""Number of tokens in a chunk of TRL's `chunked_nll` (`_CHUNKED_LM_HEAD_CHUNK_SIZE`)."""


def _loss_without_logits(
    tape: ForwardTape,
    head: Module,
    weights: Sequence[ModelParameter],
    x: ActivationTensor,
    rows: int,
    vocabulary: int,
) -> None:
    """Record a cross entropy that never allocates all logits at once.

    `fused` computes the gradients chunk by chunk in the forward pass (Liger's `LigerFusedLinearCrossEntropyFunction`;
    the logits of a chunk are as large as the hidden states). `chunked` recomputes the logits of each chunk in the
    backward pass.
    """
    hidden = max(1, x.numel // rows)
    trains_head = any(weight.requires_grad for weight in weights)
    head_bytes = tape.itemsize * hidden * vocabulary if trains_head else 0
    if tape.kernels.loss == "fused":
        parts = -(-vocabulary // hidden)
        tokens = min(rows, 1 << (-(-rows // parts) - 1).bit_length())
        chunk = (x.itemsize + 4) * tokens * vocabulary
        temporary, backward_temporary = chunk + x.bytes + head_bytes, 0
    else:
        chunk = (x.itemsize + 8) * min(rows, CHUNK) * vocabulary
        # Gradients of the head from two chunks are added.
        temporary, backward_temporary = chunk, chunk + 2 * head_bytes
    with tape.record_module(head, x):
        loss = tape.tensor(1, 4)
        tape.op([x], loss, [x], weights, temporary, backward_temporary)
    tape.op([loss], tape.tensor(1, 4), shares_grad=True)


def cross_entropy(
    tape: ForwardTape, hidden_states: ActivationTensor, logits: ActivationTensor, rows: int
) -> None:
    """Record the mean cross entropy; hidden states and logits stay referenced until the loss returns."""
    logits_fp32 = logits
    if logits.itemsize != 4:
        logits_fp32 = tape.op([logits], tape.tensor(logits.numel, 4, label=LOGITS))
    labels = tape.tensor(rows, 8, requires_grad=False)
    tape.op([], labels)
    # `ForCausalLMLoss` upcasts logits to fp32, so logits, their copy and log-probabilities coexist: 10 bytes
    # per logit in half precision.
    log_probs = tape.tensor(logits.numel, 4, label=LOGITS)
    tape.op([logits_fp32], log_probs, [log_probs])
    loss = tape.tensor(1, 4)
    tape.op([log_probs, labels], loss, [log_probs, labels])
    tape.keep_alive(hidden_states, logits, *([logits_fp32] if logits_fp32 is not logits else []))
    tape.op([loss], tape.tensor(1, 4), shares_grad=True)


def loss_in_logits_dtype(tape: ForwardTape, logits: ActivationTensor) -> None:
    """Record the mean cross entropy in the dtype of the logits, or in fp32 under autocast."""
    logits_up = to_fp32_under_autocast(tape, logits)
    log_probs = tape.tensor(logits_up.numel, logits_up.itemsize, label=LOGITS)
    tape.op([logits_up], log_probs, [log_probs])
    loss = tape.tensor(1, logits_up.itemsize)
    tape.op([log_probs], loss, [log_probs])
    tape.keep_alive(logits)
    tape.op([loss], tape.tensor(1, 4), shares_grad=True)


# Losses of preference training, reinforcement learning and distillation, which compute log-probabilities of the labels.


def _score(
    tape: ForwardTape, head: Module, weights: Sequence[ModelParameter], x: ActivationTensor, rows: int
) -> None:
    """Record the head of a reward model (`ForSequenceClassification`), which outputs one score per token."""
    with tape.record_module(head, x):
        score = tape.op([x], tape.tensor(rows), saved_inputs(tape, x, weights), weights)
    tape.op([score], tape.tensor(1, 4), shares_grad=True)


def _log_probs_of_labels(tape: ForwardTape, logits: ActivationTensor, rows: int) -> ActivationTensor:
    """Record `log_softmax` and `gather`, whose backward pass zero-fills a tensor as large as the logits."""
    log_probs = tape.tensor(logits.numel, logits.itemsize, label=LOGITS)
    tape.op([logits], log_probs, [log_probs])
    labels = tape.op([], tape.tensor(rows, 8, requires_grad=False))
    return tape.op([log_probs, labels], tape.tensor(rows, logits.itemsize), [labels])


def preference_loss(
    tape: ForwardTape, hidden_states: ActivationTensor, logits: ActivationTensor, rows: int
) -> None:
    """Record the DPO or KTO loss (TRL's `concatenated_forward`, `selective_log_softmax`) in the dtype of the logits.

    The reference model runs next, while the graph of the trained model is still alive.
    """
    selected = _log_probs_of_labels(tape, logits, rows)
    tape.keep_alive(hidden_states, logits)
    if tape.objective.has_reference:
        tape.op([], tape.tensor(0, requires_grad=False), temporary=2 * logits.bytes)
    tape.op([selected], tape.tensor(1, 4), shares_grad=True)


def preference_loss_in_fp32(
    tape: ForwardTape, hidden_states: ActivationTensor, logits: ActivationTensor, rows: int
) -> None:
    """Record LLaMA-Factory's preference loss, which casts all logits to fp32 (train/dpo/trainer.py).

    The fp32 logits stay allocated while the reference model computes its own.
    """
    logits_fp32 = tape.op([logits], tape.tensor(logits.numel, 4, label=LOGITS))
    selected = _log_probs_of_labels(tape, logits_fp32, rows)
    if tape.objective.has_reference:
        tape.op([], tape.tensor(0, requires_grad=False), temporary=2 * logits_fp32.bytes)
    tape.keep_alive(hidden_states, logits_fp32)
    tape.op([selected], tape.tensor(1, 4), shares_grad=True)


def likelihood_and_preference_loss(
    tape: ForwardTape, hidden_states: ActivationTensor, logits: ActivationTensor, rows: int
) -> None:
    """Record the CPO, SimPO or ORPO loss: cross entropy of the chosen half, log-probabilities of all labels.

    Source: trl cpo_trainer.py, `concatenated_forward`; the shifted logits of the chosen half are copied.
    """
    chosen = tape.op([logits], tape.tensor(logits.numel // 2, logits.itemsize, label=LOGITS))
    likelihood = _log_probs_of_labels(tape, chosen, rows // 2)
    selected = _log_probs_of_labels(tape, logits, rows)
    tape.keep_alive(hidden_states, logits)
    tape.op([likelihood, selected], tape.tensor(1, 4))


def policy_gradient_loss(
    tape: ForwardTape, hidden_states: ActivationTensor, logits: ActivationTensor, rows: int
) -> None:
    """Record the GRPO, RLOO or PPO loss, which divides the logits by the temperature.

    Source: trl grpo_trainer.py. The trainer of PPO, which TRL 1.16.0 no longer has, did the same.
    """
    scaled = tape.op([logits], tape.tensor(logits.numel, logits.itemsize, label=LOGITS))
    selected = _log_probs_of_labels(tape, scaled, rows)
    tape.keep_alive(hidden_states, logits, scaled)
    tape.op([selected], tape.tensor(1, 4), shares_grad=True)


def divergence_loss(
    tape: ForwardTape, hidden_states: ActivationTensor, logits: ActivationTensor, _: int
) -> None:
    """Record the Jensen-Shannon divergence between student and teacher (`generalized_jsd_loss` in TRL).

    Local variables keep the tensors alive until the loss returns. `kl_div` with `log_target` runs as exponential,
    difference and product (ATen/native/Loss.cpp).
    """
    count, itemsize = logits.numel, logits.itemsize

    def op(
        inputs: Sequence[ActivationTensor],
        *,
        saves: Sequence[ActivationTensor] = (),
        saves_output: bool = False,
    ) -> ActivationTensor:
        output = tape.tensor(count, itemsize, label=LOGITS)
        return tape.op(inputs, output, (*saves, *([output] if saves_output else ())))

    teacher = tape.op([], tape.tensor(count, itemsize, requires_grad=False, label=LOGITS))
    scaled, scaled_teacher = op([logits]), op([teacher])
    student_log_probs, teacher_log_probs = op([scaled], saves_output=True), op([scaled_teacher])
    stacked = tape.op(
        [op([student_log_probs]), op([teacher_log_probs])],
        tape.tensor(2 * count, itemsize, label=LOGITS),
    )
    mixture = tape.tensor(count, itemsize, label=LOGITS)
    tape.op([stacked], mixture, [stacked, mixture])
    teacher_probs = op([teacher_log_probs])
    divergence_of_teacher = op([teacher_probs, op([teacher_log_probs, mixture])], saves=[teacher_probs])
    student_probs = op([student_log_probs], saves_output=True)
    difference = op([student_log_probs, mixture])
    divergence_of_student = op([student_probs, difference], saves=[student_probs, difference])
    divergence = op([op([divergence_of_teacher]), op([divergence_of_student])])
    masked = op([divergence])
    variables = (logits, teacher, scaled, scaled_teacher, student_log_probs, teacher_log_probs)
    results = (mixture, divergence_of_teacher, divergence_of_student, divergence, masked)
    tape.keep_alive(hidden_states, *variables, *results)
    tape.op([masked], tape.tensor(1, 4), shares_grad=True)


_OBJECTIVES = {
    "likelihood": cross_entropy,
    "preference": preference_loss,
    "preference_in_fp32": preference_loss_in_fp32,
    "likelihood_and_preference": likelihood_and_preference_loss,
    "policy_gradient": policy_gradient_loss,
    "divergence": divergence_loss,
}
"""Loss function of each objective that uses logits; `score` has none."""

"""What Transformers and Accelerate make of a config before DeepSpeed sees it, in their order of steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from dsconfig.batch.triplet import MICRO, STEPS, TRAIN
from dsconfig.consumers import BY_NAME, Consumer
from dsconfig.consumers.training_args import Arguments, hidden_size
from dsconfig.resolving.run import Filled, Message, Mismatch, ResolveError

_ZERO = "zero_optimization"


class Filler:
    """One config being filled, in place."""

    def __init__(
        self,
        config: dict[str, Any],
        consumer: str,
        training_args: Mapping[str, Any] | None,
        model_config: Mapping[str, Any] | None,
    ) -> None:
        self.config, self.consumer = config, BY_NAME[consumer]
        self.args = Arguments(training_args or {}, self.consumer.defaults)
        self.given = training_args is not None
        self.model = model_config
        self.filled: list[Filled] = []
        self.mismatches: list[Mismatch] = []
        self.messages: list[Message] = []

    def run(self, ranks: int, sp: int) -> None:
        """Fill what can be filled.

        Raises:
            ResolveError: the batch is to be filled, and nobody says from what.
            ValueError: a training argument is of the wrong kind.
        """
        if not self.consumer.fills:
            return
        self._require_arguments()
        if self.consumer.name == "transformers":
            if self.given:
                self._arguments(ranks)
            self._plugin("fp16" if self._on("fp16") else "bf16" if self._on("bf16") else "no")
            self._model()
        else:
            self._plugin(self.args.text("mixed_precision"))
        self._prepare(ranks, sp)
        for key in _autos(self.config, ""):
            self._left(key)

    def fill(self, key: str, value: Any, origin: str, *, must_match: bool = False) -> None:
        """Put `value` where "auto" is written; else, where it must, hold it against what is written."""
        *sections, last = key.split(".")
        here: Any = self.config
        for section in sections:
            here = here.get(section) if isinstance(here, dict) else None
        if not isinstance(here, dict) or value is None:
            return
        written = here.get(last)
        if written == "auto":
            here[last] = value
            self.filled.append(Filled(key, value, origin))
        elif must_match and written is not None and written != value:
            self.mismatches.append(Mismatch(key, written, origin, value))

    def _on(self, name: str) -> bool:
        return self.given and self.args.flag(name)

    def _require_arguments(self) -> None:
        """Stop where a value is to be filled, and neither training arguments nor a default say with what."""
        if self.consumer.name == "accelerate":
            self.given = True  # every argument but the batch size has a default
            known = self.args.number("per_device_train_batch_size") is not None
            missing = [] if known or self.config.get(MICRO) != "auto" else [MICRO]
        else:
            asked = {fill.key for fill in self.consumer.fills if fill.stage == "arguments"}
            missing = [] if self.given else [key for key in _autos(self.config, "") if key in asked]
        if missing:
            raise ResolveError(
                f"{self.consumer.name} fills `{'`, `'.join(missing)}` from training arguments, which are "
                "not given",
                (f"`{missing[0]}` comes from {self.consumer.origin(missing[0])}",),
            )

    def _arguments(self, ranks: int) -> None:
        """Source: HfTrainerDeepSpeedConfig.trainer_config_process."""
        args = self.args
        micro, steps = args.whole("per_device_train_batch_size"), args.whole("gradient_accumulation_steps")
        rate = args.number("learning_rate")
        fp16 = args.flag("fp16") or args.flag("fp16_full_eval")
        bf16 = args.flag("bf16") or args.flag("bf16_full_eval")
        for key, value in (
            (MICRO, micro),
            (STEPS, steps),
            (TRAIN, ranks * (micro or 1) * (steps or 1)),
            ("gradient_clipping", args.number("max_grad_norm")),
            ("optimizer.params.lr", rate),
            ("optimizer.params.betas", [args.number("adam_beta1"), args.number("adam_beta2")]),
            ("optimizer.params.eps", args.number("adam_epsilon")),
            ("optimizer.params.weight_decay", args.number("weight_decay")),
            ("scheduler.params.warmup_min_lr", 0),
            ("scheduler.params.warmup_max_lr", rate),
            ("fp16.enabled", fp16),
            ("bf16.enabled", bf16),
        ):
            self._by_table(key, value)
        if args.flag("save_on_each_node"):
            self.config.setdefault("checkpoint", {})["use_node_local_storage"] = True
            self.filled.append(Filled("checkpoint.use_node_local_storage", True, "save_on_each_node"))

    def _by_table(self, key: str, value: Any) -> None:
        fill = next(fill for fill in self.consumer.fills if fill.key == key)
        self.fill(key, value, fill.origin, must_match=fill.must_match)

    def _plugin(self, precision: str) -> None:
        """Source: DeepSpeedPlugin.__post_init__ and set_mixed_precision."""
        if STEPS not in self.config:
            self._insert(STEPS, 1, "a constant")
        if _ZERO not in self.config:
            text = f"accelerate refuses a config without `{_ZERO}`: write it, if only with stage 0"
            self.messages.append(Message("refused", text, _ZERO))
        for fill in self.consumer.fills:
            if fill.stage == "plugin" and fill.origin in self.args.defaults:
                self.fill(
                    fill.key, self.args.written.get(fill.origin, self.args.defaults[fill.origin]), fill.origin
                )
        self._precision(precision)
        text = (
            "accelerate sets `steps_per_print` to infinity, which JSON has no word for: it is as written here"
        )
        self.messages.append(Message("note", text, "steps_per_print"))

    def _precision(self, precision: str) -> None:
        wanted = {"fp16": precision == "fp16", "bf16": precision in ("bf16", "fp8")}
        for name, other in (("fp16", "bf16"), ("bf16", "fp16")):
            block = self.config.get(other)
            enabled = block.get("enabled") if isinstance(block, dict) else None
            if wanted[name] and str(enabled).lower() == "true":
                text = f"mixed precision {precision} is refused, because `{other}.enabled` is true"
                self.messages.append(Message("refused", text, f"{other}.enabled"))
        for name, on in wanted.items():
            if name not in self.config:
                block = {"enabled": True, "auto_cast": True} if on and name == "fp16" else {"enabled": on}
                self._insert(name, block, f"mixed precision {precision}")
            self.fill(f"{name}.enabled", on, f"mixed precision {precision}")

    def _insert(self, key: str, value: Any, origin: str) -> None:
        self.config[key] = value
        self.filled.append(Filled(key, value, origin))

    def _model(self) -> None:
        """Source: HfTrainerDeepSpeedConfig.trainer_config_finalize."""
        zero = self.config.get(_ZERO)
        stage = zero.get("stage") if isinstance(zero, dict) else None
        self._buckets(all_stages=stage == 3)
        if self.given:
            total = self.args.steps()
            self._by_table("scheduler.params.total_num_steps", total)
            self._by_table("scheduler.params.warmup_num_steps", self.args.warmup(total))
        if "optimizer" not in self.config:
            self._insert("zero_allow_untested_optimizer", True, "no `optimizer` in the config")

    def _buckets(self, *, all_stages: bool) -> None:
        nested = self.consumer.name == "transformers"
        hidden = hidden_size(self.model, nested=nested) if self.model is not None else None
        if hidden is None:
            return
        square = hidden * hidden
        self.fill(f"{_ZERO}.reduce_bucket_size", square, f"hidden size {hidden}²")
        if all_stages:
            key = f"{_ZERO}.stage3_prefetch_bucket_size"
            self.fill(key, int(0.9 * hidden * hidden), f"0.9 × hidden size {hidden}²")
            key = f"{_ZERO}.stage3_param_persistence_threshold"
            self.fill(key, 10 * hidden, f"10 × hidden size {hidden}")

    def _prepare(self, ranks: int, sp: int) -> None:
        """Source: Accelerator._prepare_deepspeed, which the Trainer goes through too."""
        args = self.args
        if self.given:
            self.fill(STEPS, args.whole("gradient_accumulation_steps"), "gradient_accumulation_steps")
            micro = args.whole("per_device_train_batch_size")
            if micro is not None and self.consumer.name == "accelerate" and args.flag("split_batches"):
                micro //= ranks
            self.fill(MICRO, micro, "per_device_train_batch_size")
        micro, steps = self.config.get(MICRO), self.config.get(STEPS)
        if type(micro) is int and type(steps) is int:
            batch = micro * steps * ranks // sp
            self.fill(TRAIN, batch, "micro batch × accumulation steps × data-parallel ranks")
            if sp > 1 and self.config.get(TRAIN) != batch:
                self._insert(TRAIN, batch, "micro batch × accumulation steps × data-parallel ranks")
        self._buckets(all_stages=True)
        if self.consumer.name == "accelerate":
            self._dummies(ranks)
        self.fill("gradient_clipping", args.number("gradient_clipping") or 1.0, "gradient_clipping, else 1.0")

    def _dummies(self, ranks: int) -> None:
        """The optimizer and the scheduler that stand for those of the config."""
        args = self.args
        rate = args.number("learning_rate")
        if "optimizer" in self.config:
            self.fill("optimizer.params.lr", rate, "learning_rate (DummyOptim)")
            self.fill(
                "optimizer.params.weight_decay", args.number("weight_decay"), "weight_decay (DummyOptim)"
            )
        else:
            self._insert("zero_allow_untested_optimizer", True, "no `optimizer` in the config")
        total = args.steps()
        if total is not None and not args.flag("split_batches"):
            total = math.ceil(total / ranks)
        self.fill("scheduler.params.warmup_min_lr", 0, "0")
        self.fill("scheduler.params.warmup_max_lr", rate, "learning_rate (DummyOptim)")
        warmup = max(1, int(args.number("warmup_steps")))
        self.fill("scheduler.params.warmup_num_steps", warmup, "warmup_steps (DummyScheduler)")
        self.fill("scheduler.params.total_num_steps", total, "max_steps / processes (DummyScheduler)")

    def _left(self, key: str) -> None:
        origin = self.consumer.origin(key)
        if origin is None:
            text = f"`{key}` is `auto`, which {self.consumer.name} does not fill: it stops in `prepare`"
            self.messages.append(Message("refused", text, key))
            return
        what = "a model config" if "hidden size" in origin else "the training arguments"
        self.messages.append(
            Message("unfilled", f"`{key}` stays `auto`: {origin} is not known from {what}", key)
        )


def fill(
    config: dict[str, Any],
    consumer: Consumer,
    ranks: int,
    training_args: Mapping[str, Any] | None,
    model_config: Mapping[str, Any] | None,
    *,
    sp: int = 1,
) -> Filler:
    """Fill a config in place, as the consumer would on `ranks` processes; see `Filler.run`."""
    filler = Filler(config, consumer.name, training_args, model_config)
    filler.run(ranks, sp)
    return filler


def _autos(section: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """The dotted path of every "auto" in objects; lists are not looked into."""
    for key, value in section.items():
        if isinstance(value, dict):
            yield from _autos(value, f"{prefix}{key}.")
        elif value == "auto" and isinstance(value, str):
            yield f"{prefix}{key}"

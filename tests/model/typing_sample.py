"""Right and wrong ways to build a config. A type checker must complain about exactly the marked lines."""

from pathlib import Path
from typing import Literal

from typing_extensions import assert_type

from dsconfig import (
    Amp,
    Checkpoint,
    Config,
    Fp16,
    OffloadOptimizer,
    OffloadParam,
    Optimizer,
    Scheduler,
    ZenFlow,
    ZeroOptimization,
)
from dsconfig.types import (
    AdamWParams,
    CheckpointWriter,
    LambParams,
    LeafModule,
    OneCycleParams,
    WarmupDecayLRParams,
    ZeroppLocoParam,
)

config = Config(train_batch_size=64, gradient_clipping=1)
Config(train_batch_size="64")  # error
Config(train_batchsize=64)  # error
Config(64)  # error
Config(fp16=True)  # error
Config(fp16=Fp16(enabled=True, loss_scale=0.0))
Config(fp16=Fp16(enabled="true"))  # error
Config(fp16=Fp16(loss_scaling=0))  # error
Config(bf16=Fp16())  # error

ZeroOptimization(stage=3)
ZeroOptimization(stage=4)  # error
ZeroOptimization(stage="3")  # error
ZeroOptimization(stage=3, reduce_bucket_size=500_000_000)
ZeroOptimization(reduce_bucket_size=5e8)
ZeroOptimization(mics_shard_size=2.5)  # error
ZeroOptimization(stage="auto", reduce_bucket_size="auto")
ZeroOptimization(reduce_bucket_size="automatic")  # error
ZeroOptimization(sub_group_size="auto")  # error
ZeroOptimization(overlap_comm=None, offload_param=None)
ZeroOptimization(contiguous_gradients=None)  # error
ZeroOptimization(offload_param=OffloadParam(device="cpu", pin_memory=True))
ZeroOptimization(offload_param=OffloadParam(device="gpu"))  # error
ZeroOptimization(offload_param=OffloadOptimizer())  # error
ZeroOptimization(offload_optimizer={"device": "cpu", "nvme_path": Path("/nvme")})
ZeroOptimization(offload_optimizer={"device": "gpu"})  # error
Config(zero_optimization={"stage": 3})
Config(zero_optimization={"stge": 3})  # error
ZeroOptimization(leaf_module=LeafModule(classes=["MyBlock"], names="experts"))
ZeroOptimization(zenflow=ZenFlow(update_interval="auto", select_interval=4))
ZeroOptimization(zenflow=ZenFlow(update_interval="often"))  # error
ZeroppLocoParam(err_beta=0.8, reset_T=1024)
ZeroppLocoParam(err_beta=0.8)  # error
Amp(enabled=True, opt_level="O2")
Amp()  # error

Optimizer(type="AdamW", params=AdamWParams(lr=3e-4, betas=[0.9, 0.95]))
Optimizer(type="AdamW", params=AdamWParams(lr="auto", betas="auto"))
Optimizer(type="AdamW", params=AdamWParams(learning_rate=3e-4))  # error
Optimizer(type="Lamb", params=LambParams(max_coeff="10"))  # error
Optimizer(type="SGD", params={"lr": 0.1, "nesterov": True})
Optimizer(type="SGD", params=Fp16())  # error
Scheduler(type="WarmupDecayLR", params=WarmupDecayLRParams(total_num_steps=1000))
Scheduler(type="WarmupDecayLR", params=WarmupDecayLRParams())  # error
Scheduler(type="OneCycle", params=OneCycleParams(cycle_min_lr=1e-5, cycle_max_lr=[1e-3, 1e-4]))
Checkpoint(tag_validation="FAIL", writer=CheckpointWriter(type="FAST"))
Checkpoint(tag_validation="fail")  # error

config.zero_optimization.stage = 3
config.zero_optimization.stage = 5  # error
config.zero_optimization.stge = 3  # error
config.optimizer.params = AdamWParams(lr=1e-3)
config.amp.enabled = True
config.fp16.loss_scale = "dynamic"  # error

assert_type(config.zero_optimization.overlap_comm, bool | None)
assert_type(config.zero_optimization.offload_param, OffloadParam | None)
assert_type(config.gradient_clipping, float | Literal["auto"])
assert_type(config.prescale_gradients, bool)
assert_type(config.to_json(), str)

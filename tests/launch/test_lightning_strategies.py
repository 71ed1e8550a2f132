"""Arguments of Lightning programs that fail with a DeepSpeed strategy."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsconfig import check
from dsconfig.check.discover import is_config_file

IMPORT = "import lightning.pytorch as pl\nfrom lightning.pytorch.strategies import DeepSpeedStrategy\n"
FABRIC = "from lightning.fabric import Fabric\n"
MODULE = """
class Net(pl.LightningModule):
    def configure_optimizers(self):
        return {}
"""
REJECTED = [
    (IMPORT + "pl.Trainer(strategy='deepspeed_stage_1_offload')", "stage=1, offload_optimizer=True"),
    (IMPORT + "pl.Trainer(strategy='deepspeed_zero3')", "use one of deepspeed, "),
    (FABRIC + "Fabric(strategy='deepspeed_stage_4')", "use one of deepspeed, "),
    (
        IMPORT + "kind = 'deepspeed_stage_2'\npl.Trainer(accelerator='cpu', strategy=kind)",
        'accelerator="gpu"',
    ),
    (IMPORT + "pl.Trainer(strategy=DeepSpeedStrategy(stage=2), precision='64-true')", "use 32, 16 or bf16"),
    (IMPORT + "pl.Trainer(strategy='deepspeed', gradient_clip_algorithm='value')", '"norm"'),
    (IMPORT + "pl.Trainer(strategy=DeepSpeedStrategy(cpu_offload=True))", "`offload_optimizer=True`"),
    (IMPORT + MODULE.format("[opt_g, opt_d], []") + "pl.Trainer(strategy='deepspeed')", "one optimizer with"),
    (IMPORT + MODULE.format("opt_g, opt_d") + "pl.Trainer(strategy='deepspeed')", "one optimizer with"),
    (
        IMPORT
        + MODULE.format("FusedAdam(self.parameters())")
        + "pl.Trainer(strategy='deepspeed_stage_2_offload')",
        "DeepSpeedCPUAdam",
    ),
    (
        IMPORT
        + MODULE.format("torch.optim.AdamW(self.parameters())")
        + "pl.Trainer(strategy=DeepSpeedStrategy(stage=2, offload_optimizer=True))",
        "DeepSpeedCPUAdam",
    ),
]
ACCEPTED = [
    IMPORT
    + MODULE.format("DeepSpeedCPUAdam(self.parameters())")
    + "pl.Trainer(strategy='deepspeed_stage_3_offload')",
    IMPORT + MODULE.format("FusedAdam(self.parameters())") + "pl.Trainer(strategy='deepspeed_stage_3')",
    IMPORT
    + MODULE.format("AdamW(self.parameters())")
    + "pl.Trainer(strategy=DeepSpeedStrategy(offload_optimizer=True, config={}))",
    FABRIC + "Fabric(strategy='deepspeed', precision='bf16-true')",
    IMPORT + "pl.Trainer(strategy='deepspeed_stage_3_offload_nvme', accelerator='auto', precision='bf16')",
    FABRIC + "Fabric(strategy='deepspeed_stage_1_offload')",
    IMPORT
    + "pl.Trainer(strategy='ddp', accelerator='cpu', gradient_clip_algorithm='value')  # deepspeed_stage_9",
    IMPORT + "def train(kind):\n    pl.Trainer(strategy=kind)\n\ntrain('deepspeed_stage_9')",
    IMPORT
    + "StrategyRegistry.register('deepspeed_own', DeepSpeedStrategy)\npl.Trainer(strategy='deepspeed_own')",
    IMPORT + MODULE.format("[opt], [sched]") + "pl.Trainer(strategy='deepspeed')",
    IMPORT + MODULE.format("opt, lr_sched") + "pl.Trainer(strategy='deepspeed')",
    "from mine import Trainer, DeepSpeedStrategy\nTrainer(strategy='deepspeed_stage_9')  # not Lightning's",
    IMPORT + "pl.Trainer(strategy='deepspeed_stage_9'",
]


@pytest.mark.parametrize(("source", "advice"), REJECTED)
def test_rejected(empty_repository: Path, source: str, advice: str) -> None:
    (empty_repository / "train.py").write_text(source + "\n")
    assert is_config_file("train.py")
    (diagnostic,) = check("train.py", target="0.19.8")
    assert (diagnostic.code, diagnostic.effect.value) == ("DSC870", "crashes")
    assert advice in str(diagnostic.help)


@pytest.mark.parametrize("source", ACCEPTED)
def test_accepted(empty_repository: Path, source: str) -> None:
    (empty_repository / "train.py").write_text(source + "\n")
    assert not is_config_file("train.py")


@pytest.mark.parametrize(
    ("requirement", "count"), [("lightning==2.0.9", 1), ("pytorch-lightning>=2.1", 0), ("lightning", 0)]
)
def test_true_precision_by_version(empty_repository: Path, requirement: str, count: int) -> None:
    (empty_repository / "requirements.txt").write_text(requirement + "\n")
    source = FABRIC + "Fabric(strategy='deepspeed_stage_2', precision='bf16-true')\n"
    (empty_repository / "train.py").write_text(source)
    codes = [each.code for each in check("train.py", target="0.9.1")] if count else []
    assert codes == ["DSC870"] * count
    assert is_config_file("train.py") == bool(count)

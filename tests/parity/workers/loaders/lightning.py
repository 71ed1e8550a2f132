"""Lightning's own reading: its command line, and the strategy that it makes, up to its config."""

from __future__ import annotations

import types
from typing import Any

from tests.parity.workers.loaders import serve
from tests.parity.workers.loaders.hand_over import stand_in


def load(case: serve.Config) -> tuple[serve.Config, list[str]]:
    """What `DeepSpeedStrategy` hands to DeepSpeed; it compares nothing with anything."""
    import torch
    from lightning.pytorch import LightningModule
    from lightning.pytorch.cli import LightningCLI

    line = LightningCLI(
        LightningModule, run=False, args=["--config", serve.LAUNCH], save_config_callback=None
    )
    strategy: Any = line.trainer.strategy
    if line.trainer.world_size != serve.RANKS:
        raise AssertionError(f"{line.trainer.world_size} processes")
    line.model.trainer = line.trainer
    strategy._lightning_module = line.model
    # `fit` has loaded the data by then.
    loader = torch.utils.data.DataLoader(torch.zeros(64, 2), batch_size=case["batch"])  # type: ignore[arg-type]
    line.trainer.fit_loop._data_source = types.SimpleNamespace(
        is_defined=lambda: True, dataloader=lambda: loader
    )
    strategy._init_config_if_needed()
    return strategy.config, []


if __name__ == "__main__":
    stand_in()
    serve.serve(load)

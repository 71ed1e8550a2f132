"""DeepSpeed's Universal Checkpoint: how a checkpoint of one world size is loaded at another."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from elastic.atomic_write import atomic_write
from elastic.json_types import Json
from elastic.worker.checkpoints import Saved


def universal(saved: Saved, workers: int = 1) -> Path:
    """The folder of the checkpoint in DeepSpeed's universal form, converted unless it is already.

    ZeRO's optimizer state is cut for one world size; the universal form can be loaded at any.  Call it on one
    rank, then `engine.load_checkpoint(folder, tag)` on all, with `load_universal` in the config
    (`with_universal`).  Needs DeepSpeed; source: `deepspeed/checkpoint/ds_to_universal.py`.
    """
    name = Saved(saved.root, f"{saved.name}_universal", saved.world_size).name  # refuses a link there
    target = saved.root / name
    if not (target / "elastic.json").exists():
        # Its own name: the converter of an earlier round may still be at work, on another host as well.
        partial = target.with_name(f"{target.name}.partial-{secrets.token_hex(6)}")
        command = [sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal"]
        command += ["--input_folder", str(saved.folder / saved.tag), "--output_folder", str(partial)]
        command += ["--num_extract_workers", str(workers), "--num_merge_workers", str(workers)]
        subprocess.run([*command, "--inject_missing_state"], check=True, stdout=subprocess.DEVNULL)
        atomic_write(partial / "elastic.json", {"from": saved.name, "world_size": saved.world_size})
        try:
            partial.rename(target)
        except OSError:
            if not (target / "elastic.json").exists():
                raise
            shutil.rmtree(partial, ignore_errors=True)  # another one was first
    return target


def with_universal(config: Mapping[str, Json]) -> dict[str, Json]:
    """A copy of a DeepSpeed config that loads universal checkpoints."""
    return {**config, "checkpoint": {**config.get("checkpoint", {}), "load_universal": True}}

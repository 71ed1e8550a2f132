"""From a keystroke to its diagnostics: in this process, and through the installed command over stdio."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any, TypeAlias

from dsconfig import check
from dsconfig.lsp.language_server import LanguageServer
from dsconfig.lsp.protocol import uri_from_path
from tests.lsp.client import Editor

SIZE, KEYSTROKES, WARM = 5 * 1024, 110, 10
WATCHING = {"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}}}
Keystroke: TypeAlias = "Callable[[str], object]"


def clean() -> str:
    """A config of 5 KB in which nothing is found."""
    return _padded(
        {
            "train_batch_size": 64,
            "train_micro_batch_size_per_gpu": 8,
            "gradient_clipping": 1.0,
            "steps_per_print": 100,
            "bf16": {"enabled": True},
            "zero_optimization": {"stage": 3, "reduce_bucket_size": 50_000_000, "sub_group_size": 10**9},
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}},
            "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 1000}},
        }
    )


def worst() -> str:
    """One of 5 KB with 60 unknown keys, "auto" wherever someone might write it, and no world size."""
    auto = "auto"
    batch = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    params = dict.fromkeys(("lr", "betas", "eps", "weight_decay"), auto)
    data: dict[str, Any] = {
        **dict.fromkeys((*batch, "gradient_clipping"), auto),
        "zero_optimization": {"stage": auto, "reduce_bucket_size": auto, **_unknown("stge", 15)},
        "optimizer": {"type": "AdamW", "params": params},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": auto, "warmup_max_lr": auto}},
        "bf16": {"enabled": auto, **_unknown("enabld", 10)},
        "fp16": {"enabled": auto, "loss_scale": auto, **_unknown("los", 15)},
        "activation_checkpointing": _unknown("partition", 10),
        "flops_profiler": _unknown("profil", 10),
    }
    return _padded(data)


def _unknown(word: str, count: int) -> dict[str, int]:
    return {f"{word}_{number}": number for number in range(count)}


def _padded(data: dict[str, Any]) -> str:
    while len(text := json.dumps(data, indent=2)) < SIZE:
        data[f"// remark {len(data)}"] = "a remark of some length, as people write them"
    return text


def measured(text: str, type_: Keystroke) -> tuple[float, float]:
    """The median and the 95th percentile of keystrokes, in milliseconds."""
    taken = []
    for number in range(KEYSTROKES):
        start = time.perf_counter()
        type_(text.replace("{", "{" + " " * (number % 3), 1))
        taken.append((time.perf_counter() - start) * 1000)
    later = quantiles(taken[WARM:], n=20)
    return later[9], later[18]


def in_process(folder: Path) -> Keystroke:
    """The service itself."""
    service, uri = LanguageServer(), uri_from_path(str(folder / "ds_config.json"))
    service.handle_request(
        "initialize",
        {"capabilities": {"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}}}},
    )
    document = {"uri": uri, "languageId": "json", "version": 1, "text": "{}"}
    service.notify("textDocument/didOpen", {"textDocument": document})

    def type_(text: str) -> object:
        document["version"] = int(str(document["version"])) + 1
        service.notify(
            "textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]}
        )
        return json.dumps(list(service.pending_messages()))

    return type_


def start(folder: Path, text: str) -> tuple[Editor, float]:
    """A server, and the seconds until it told of its first text."""
    began = time.perf_counter()
    editor = Editor(folder, WATCHING)
    editor.open("ds_config.json", text)
    return editor, time.perf_counter() - began


def report() -> None:
    """Print all figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".git").mkdir()
        for kind, text in (("clean", clean()), ("worst", worst())):
            what = f"lsp: {kind}, {len(text):,} characters, {len(check(text))} findings"
            median, high = measured(text, in_process(folder))
            print(f"{what}: in process {median:.1f} ms, p95 {high:.1f} ms")
            editor, first = start(folder, text)
            median, high = measured(text, partial(editor.write, "ds_config.json"))
            editor.quit()
            print(
                f"{what}: over stdio {median:.1f} ms, p95 {high:.1f} ms, first {first:.2f} s after the start"
            )

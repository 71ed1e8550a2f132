"""A key of thousands of characters loses its middle wherever a diagnostic or a decision names it."""

from __future__ import annotations

import json

from dsconfig.check.check import check_document
from dsconfig.core.releases import resolve_target
from dsconfig.document import read_text
from dsconfig.fix.migrate import migrate

GROUP = {"params": {"start_bits": 8, "target_bits": 8}, **{f"unknown_{number}": 1 for number in range(20)}}
SHARED = {"enabled": True, "quantizer_kernel": False, "schedule_offset": 0}
TECHNIQUE = {"shared_parameters": SHARED, "different_groups": {"g" * 30_000: GROUP}}
TEXT = json.dumps({"train_batch_size": 8, "compression_training": {"weight_quantization": TECHNIQUE}})


def test_findings() -> None:
    report = check_document(read_text(TEXT), resolve_target("0.14.5"), consumer="deepspeed")
    assert len(report.diagnostics) >= 20
    assert all(len(diagnostic.message) < 5000 and len(diagnostic.help or "") < 5000 for diagnostic in report)
    assert any(diagnostic.message.endswith("DeepSpeed ignores it") for diagnostic in report)


def test_decisions() -> None:
    done = migrate(read_text(TEXT), "0.19.8", "0.14.5")
    told = [*done.decisions, *(done.stopped.first if done.stopped else ())]
    assert told
    assert all(len(each.why) + sum(len(choice.what) for choice in each.choices) < 20_000 for each in told)

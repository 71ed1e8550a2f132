"""`dsconfig.check` from Python: its sources, its results and its errors."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

import dsconfig

OF_RANGES = {"DSC142"}
"""Rules that speak of a range as a whole: of defaults that change within it."""
TEXT = '{\n  "train_batch_size": "8"\n}\n'


def codes(report: dsconfig.Report) -> list[str]:
    return [diagnostic.code for diagnostic in report]


def test_every_kind_of_source(tmp_path: Path) -> None:
    path = tmp_path / "ds_config.json"
    path.write_text(TEXT, encoding="utf-8")
    handed_over = base64.urlsafe_b64encode(TEXT.encode()).decode()
    sources = (path, str(path), TEXT, TEXT.encode(), {"train_batch_size": "8"}, handed_over)
    assert [codes(dsconfig.check(source)) for source in sources] == [["DSC206"]] * len(sources)


def test_text_on_one_line_is_not_a_path() -> None:
    assert codes(dsconfig.check("[]")) == ["DSC005"]
    assert codes(dsconfig.check("")) == ["DSC006"]
    with pytest.raises(FileNotFoundError):
        dsconfig.check("there_is_no_such_file.json")


def test_location_of_a_diagnostic() -> None:
    (diagnostic,) = dsconfig.check(TEXT)
    assert diagnostic.location is not None
    assert (diagnostic.location.line, diagnostic.location.column) == (2, 23)
    assert TEXT[diagnostic.location.start : diagnostic.location.end] == '"8"'
    (diagnostic,) = dsconfig.check({"train_batch_size": "8"})
    assert diagnostic.location is None
    assert diagnostic.path == ("train_batch_size",)


def test_the_source_is_not_changed() -> None:
    config = {"train_batch_size": 8, "zero_optimization": {"stage": "2"}}
    dsconfig.check(config)
    assert config == {"train_batch_size": 8, "zero_optimization": {"stage": "2"}}


def test_a_file_and_a_dict_are_checked_as_deepspeed_reads_them() -> None:
    # Hjson makes integers of integral floats, and only files have duplicates.
    assert dsconfig.check('{"train_batch_size": 8e0, "train_batch_size": 8}').ok is False
    assert dsconfig.check({"train_batch_size": 8.0}, world_size=8).ok


def test_a_range_names_the_releases_of_a_diagnostic() -> None:
    report = dsconfig.check('{"train_batch_size": 8, "amp": {"enabled": false}}', target=">=0.19.5")
    (diagnostic,) = (diagnostic for diagnostic in report if diagnostic.code == "DSC104")
    assert diagnostic.releases[0] == "0.19.8"
    assert diagnostic.releases[-1] == dsconfig.LATEST
    assert report.target.releases[0] == "0.19.5"


def test_a_range_has_the_diagnostics_of_its_releases() -> None:
    text = (
        '{"train_batch_size": 8, "fp16": {"loss_scale": true, "x": 1}, "zero_optimization": {"stage": "2"}}'
    )
    together = [
        diagnostic for diagnostic in dsconfig.check(text, target=">=0.3") if diagnostic.code not in OF_RANGES
    ]
    for release in dsconfig.RELEASES:
        alone = {
            (diagnostic.code, diagnostic.path, diagnostic.effect)
            for diagnostic in dsconfig.check(text, target=release)
        }
        assert alone == {(f.code, f.path, f.effect) for f in together if release in f.releases}, release


def test_world_sizes_at_which_the_batch_works() -> None:
    assert (
        dsconfig.check({"train_batch_size": 12, "train_micro_batch_size_per_gpu": 2}).world_sizes
        == "1, 2, 3, 6"
    )
    assert dsconfig.check({"train_micro_batch_size_per_gpu": 2}).world_sizes is None
    assert dsconfig.check({"train_batch_size": 12}, world_size=4).world_sizes is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"target": "9"}, "unknown DeepSpeed release"),
        ({"target": ">=9"}, "no DeepSpeed release matches"),
        ({"consumer": "keras"}, "unknown consumer"),
        ({"world_size": 0}, "world size"),
        ({"world_size": True}, "world size"),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        dsconfig.check({"train_batch_size": 8}, **arguments)  # type: ignore[arg-type]


def test_suppressed_diagnostics_are_kept() -> None:
    report = dsconfig.check({"train_batch_size": 8, "x_y": 1, "$dsconfig": {"ignore": ["DSC101"]}})
    assert report.ok
    assert not report.diagnostics
    assert codes(report) == []
    assert [diagnostic.code for diagnostic in report.suppressed] == ["DSC101"]


def test_a_set_is_quoted_in_one_order(tmp_path: Path) -> None:
    """The order of a set of strings changes from one run of Python to the next."""
    (tmp_path / "set.yaml").write_text("train_batch_size: 8\nfp16: !!set {c, b, a, e, d}\n")
    report = dsconfig.check(tmp_path / "set.yaml", target="0.19.8")
    assert '`["a", "b", "c", "d", "e"]`' in report.diagnostics[0].message

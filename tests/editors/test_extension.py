"""The extension of VS Code as it is packed: what it declares is there, and fits what the command says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dsconfig import __version__
from dsconfig.core.releases import RELEASES
from dsconfig.document.config_file_names import CONFIGS
from dsconfig.lsp.open_documents import open_document_from_item
from dsconfig.lsp.relevant_documents import is_document_relevant, is_draft_config
from tests.parity.browser import command
from tests.source import ROOT

VSCODE = ROOT / "editors" / "vscode"
VSIX = ROOT / "editors" / "dist" / "dsconfig.vsix"
LARGEST = 10_000_000
BEGUN = {
    "ds_config.yaml": "",
    "Zero3.json": "{}",
    "accelerate_config.yaml": "",
    "a.json": '{"$dsconfig": {}}',
    "b.json": '{"bf16": {"enabled": true}}',
    "c.yaml": "train_batch_size: 8\nsteps_per_print: 2\n",
    "d.yaml": "distributed_type: DEEPSPEED\n",
    "e.yaml": "# yaml-language-server: $schema=https://www.schemastore.org/accelerate.json\n",
}
"""Texts that are the server's business, or about to be."""


@pytest.fixture(scope="module")
def vsix(built: None) -> zipfile.ZipFile:
    subprocess.run(["node", VSCODE / "build.mjs", sys.executable], check=True, capture_output=True)
    return zipfile.ZipFile(VSIX)


@pytest.fixture(scope="module")
def manifest(vsix: zipfile.ZipFile) -> dict:
    return json.loads(vsix.read("extension/package.json"))


def test_it_is_small_and_whole(vsix: zipfile.ZipFile, manifest: dict) -> None:
    assert VSIX.stat().st_size <= LARGEST
    names = set(vsix.namelist())
    icons = [path for each in manifest["contributes"]["languages"] for path in each.get("icon", {}).values()]
    grammars = [each["path"] for each in manifest["contributes"]["grammars"]]
    for path in (manifest["main"], manifest["browser"], manifest["icon"], *icons, *grammars):
        assert f"extension/{path.removeprefix('./')}" in names
    for name in ("worker.js", "worker.cjs", "pyodide.asm.wasm", "python.archive"):
        assert f"extension/dist/{name}" in names
    assert f'Version="{manifest["version"]}"' in vsix.read("extension.vsixmanifest").decode()
    assert __version__.startswith(manifest["version"])


def test_the_releases_to_choose_from_are_all_of_them(vsix: zipfile.ZipFile) -> None:
    code = vsix.read("extension/dist/web.cjs").decode()
    listed = re.search(r'\["0\.[^]]*"0\.3\.1"\]', code)
    assert listed
    assert json.loads(listed[0]) == list(RELEASES[::-1])


def test_configs_are_associated_by_the_one_list_of_names(manifest: dict) -> None:
    assert tuple(manifest["contributes"]["languages"][0]["filenamePatterns"]) == CONFIGS


def test_what_a_gallery_shows_is_there(vsix: zipfile.ZipFile, manifest: dict) -> None:
    listed = vsix.read("extension.vsixmanifest").decode()
    for path in ("README.md", "CHANGELOG.md", "LICENSE.txt"):
        assert vsix.read(f"extension/{path}")
        assert f'Path="extension/{path}"' in listed
    for address in (manifest["repository"]["url"], manifest["bugs"]["url"], manifest["homepage"]):
        assert f'Value="{address}"' in listed
    assert all(
        re.match("https?:", link)
        for link in re.findall(r"]\(([^)]+)\)", vsix.read("extension/README.md").decode())
    )


def test_a_server_is_wanted_for_all_that_it_takes_for_its_business(
    manifest: dict, vsix: zipfile.ZipFile
) -> None:
    code = vsix.read("extension/dist/web.cjs").decode()
    names, words = re.findall(r'new RegExp\("(deepspeed[^"]*)","i"\)', code)
    result = json.loads(f'"{names}"'), json.loads(f'"{words}"')
    for name, text in BEGUN.items():
        item = {"uri": f"file:///{name}", "text": text, "languageId": name.rpartition(".")[2]}
        document = open_document_from_item(item, "utf-16")
        assert is_document_relevant(document) or is_draft_config(document)
        assert re.search(result[0], name, re.IGNORECASE) or re.search(result[1], text, re.IGNORECASE), name


def test_every_command_is_registered_and_every_setting_read(manifest: dict) -> None:
    code = "".join(path.read_text("utf-8") for path in (VSCODE / "src").glob("*.ts"))
    for each in manifest["contributes"]["commands"]:
        assert f'register("{each["command"]}"' in code
    server = (ROOT / "dsconfig" / "lsp" / "workspace.py").read_text("utf-8")
    for name in manifest["contributes"]["configuration"]["properties"]:
        key = name.removeprefix("dsconfig.")
        assert f'"{key}"' in code or f'"{key}"' in server, name


def test_the_problem_matcher_reads_the_concise_output(manifest: dict, tmp_path: Path) -> None:
    config = tmp_path / "ds_config.json"
    config.write_text('{"train_batch_size": 8, "zero_optimization": {"stage": 7}}\n')
    _, output, _ = command("check", "--output-format", "concise", "--quiet", "--color", "never", str(config))
    (matcher,) = manifest["contributes"]["problemMatchers"]
    pattern = matcher["pattern"]
    match = [re.match(pattern["regexp"], line) for line in output.splitlines()]
    assert match
    for each in match:
        assert each
        assert each[pattern["file"]] == str(config)
        assert each[pattern["severity"]] in ("error", "warning", "info")
        assert each[pattern["code"]].startswith("DSC")


@pytest.mark.parametrize(
    ("text", "value", "wanted"),
    [
        ("", '"0.19.8"', 'target = "0.19.8"\n'),
        ('target="1" # mine\nignore = []\n', '"2"', 'target = "2"\nignore = []\n'),
        ("a = 1", '"2"', 'a = 1\ntarget = "2"\n'),
        ('a = 1\n[[overrides]]\ntarget = "x"\n', '"2"', 'a = 1\ntarget = "2"\n[[overrides]]\ntarget = "x"\n'),
        ('target = "1"\na = 1\n', "", "a = 1\n"),
        ("a = 1\n", "", "a = 1\n"),
    ],
)
def test_a_choice_changes_one_key_of_the_settings_file(
    built: None,
    text: str,
    value: str,
    wanted: str,
) -> None:
    program = (
        "import { buildSync } from 'esbuild';"
        "const options = { entryPoints: ['vscode/src/toml.ts'], format: 'esm', write: false };"
        "const [{ text }] = buildSync(options).outputFiles;"
        "const { withSetting } = await import('data:text/javascript,' + encodeURIComponent(text));"
        f"process.stdout.write(withSetting({json.dumps(text)}, 'target', {json.dumps(value)}));"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", program],
        cwd=ROOT / "editors",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == wanted


def test_the_readme_and_the_walkthrough_know_every_command_and_setting() -> None:
    manifest = json.loads((VSCODE / "package.json").read_text("utf-8"))["contributes"]
    readme = (VSCODE / "README.md").read_text("utf-8")
    for setting in manifest["configuration"]["properties"]:
        assert f"| `{setting}` |" in readme
    pictures = re.findall(r"!\[.+?\]\((.+?)\)", readme)
    assert len(pictures) >= 3
    assert all((VSCODE / picture).is_file() for picture in pictures)
    commands = {each["command"]: each["title"] for each in manifest["commands"]}
    for name, title in commands.items():
        assert f"| {title} |" in readme or name == "dsconfig.restart"
    for step in manifest["walkthroughs"][0]["steps"]:
        assert (VSCODE / step["media"]["markdown"]).is_file()
        named = re.findall(r"command:([\w.]+)\)", step["description"]) + [
            event.partition(":")[2] for event in step["completionEvents"] if event.startswith("onCommand:")
        ]
        assert {*named} <= commands.keys()

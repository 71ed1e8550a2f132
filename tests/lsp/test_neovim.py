"""Neovim, headless, with the settings that `dsconfig editor neovim` shows: an old one and a new one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lsp.client import COMMAND

NEOVIMS = {
    "of the distribution": shutil.which("nvim", path=os.defpath),
    "0.11 or later": shutil.which("nvim", path=COMMAND.parent),
}
"""The first half of the settings is for one, the second for the other, which comes with the extra `dev`."""
TEXT = '{\n  "train_batch_size": 8,\n  "zero_optimization": {"stage": 2},\n  "bf16": {"enabld": true}\n}\n'
DRIVE = """
local function wait(what) assert(vim.wait(30000, what, 20), "nothing came") end
wait(function() return #vim.diagnostic.get(0) > 0 end)
local out = {}
local found = vim.diagnostic.get(0)[1]
out.line, out.column, out.message = found.lnum, found.col, found.message
local function ask(method, params)
  for _, reply in pairs(vim.lsp.buf_request_sync(0, method, params, 30000)) do
    assert(not reply.error, vim.inspect(reply.error))
    return reply.result
  end
end
vim.api.nvim_win_set_cursor(0, { 3, 27 })
local here = vim.lsp.util.make_position_params()
out.hover = ask("textDocument/hover", here).contents.value
vim.api.nvim_win_set_cursor(0, { 3, 24 })
out.labels = {}
for _, item in ipairs(ask("textDocument/completion", vim.lsp.util.make_position_params()).items) do
  table.insert(out.labels, item.label)
end
vim.api.nvim_win_set_cursor(0, { 4, 13 })
local params = vim.lsp.util.make_range_params()
params.context = { diagnostics = {} }
for _, action in ipairs(ask("textDocument/codeAction", params)) do
  if action.title == "rename to `enabled`" then
    vim.lsp.util.apply_workspace_edit(action.edit, "utf-16")
  end
end
wait(function() return #vim.diagnostic.get(0) == 0 end)
vim.cmd("write")
vim.fn.writefile({ vim.json.encode(out) }, "out.json")
vim.cmd("quitall!")
"""


@pytest.mark.parametrize("neovim", NEOVIMS.values(), ids=NEOVIMS)
def test_neovim_shows_fixes_completes_and_tells(tmp_path: Path, neovim: str | None) -> None:
    if neovim is None:
        pytest.skip("this neovim is not installed")
    config = tmp_path / "ds_config.json"
    config.write_text(TEXT)
    settings = subprocess.run([str(COMMAND), "editor", "neovim"], capture_output=True, text=True, check=True)
    (tmp_path / "settings.lua").write_text(settings.stdout)
    # What a user types is not there while the script runs, and an error in it would wait for one.
    drive = (
        f"local done, why = pcall(function() {DRIVE} end)\nif not done then print(why) vim.cmd('cquit') end\n"
    )
    (tmp_path / "drive.lua").write_text(drive)
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    command = [neovim, "--headless", "--clean", "-c", "luafile settings.lua", "-c", f"edit {config}"]
    done = subprocess.run(
        [*command, "-c", "luafile drive.lua"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    out = json.loads((tmp_path / "out.json").read_text())
    assert (out["line"], out["column"]) == (3, 11)
    assert "`enabld` is not a DeepSpeed key" in out["message"]
    assert out["hover"].startswith("`zero_optimization.stage`")
    assert "overlap_comm" in out["labels"]
    assert config.read_text() == TEXT.replace("enabld", "enabled")

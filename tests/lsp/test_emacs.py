"""Emacs from the distribution in batch mode: eglot, with the settings that `dsconfig editor emacs` shows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.lsp.client import COMMAND

EMACS = shutil.which("emacs")
TEXT = '{\n  "zero_optimization": {"stage": 2},\n  "train_batch_size": 8,\n  "fp16": {"enabeld": true}\n}\n'
WITHOUT = 77
"""Exit code of the script if Emacs has no eglot."""
DRIVE = r"""
(unless (require 'eglot nil t) (kill-emacs 77))
(require 'json)
(setq eglot-connect-timeout 60 eglot-sync-connect 60 last-nonmenu-event ?a)
(defun until (what)
  (with-timeout (60 (error "nothing came"))
    (while (not (funcall what)) (flymake-start) (accept-process-output nil 0.1))))
(find-file "ds_config.json")
(apply #'eglot (eglot--guess-contact))
(until #'flymake-diagnostics)
(let* ((found (car (flymake-diagnostics))) (begin (flymake-diagnostic-beg found)) out)
  (push (cons 'line (line-number-at-pos begin)) out)
  (push (cons 'text (flymake-diagnostic-text found)) out)
  (goto-char (point-min))
  (search-forward "\"stage")
  (let ((hover (jsonrpc-request (eglot--current-server-or-lose) :textDocument/hover
                                (eglot--TextDocumentPositionParams))))
    (push (cons 'hover (plist-get (plist-get hover :contents) :value)) out))
  (search-forward "2")
  (insert ", ")
  (let ((offered (all-completions "" (nth 2 (eglot-completion-at-point)))))
    (push (cons 'labels (vconcat (mapcar #'substring-no-properties offered))) out))
  (delete-char -2)
  (goto-char begin)
  (let ((completing-read-function
         (lambda (_ menu &rest _)
           (seq-find (lambda (title) (string-prefix-p "rename" title)) (mapcar #'car menu)))))
    (call-interactively #'eglot-code-actions))
  (eglot--signal-textDocument/didChange) ; eglot does so when nobody types, which batch mode never notices
  (until (lambda () (not (flymake-diagnostics))))
  (save-buffer)
  (write-region (json-encode out) nil "out.json"))
"""


@pytest.mark.skipif(EMACS is None, reason="emacs is not installed")
def test_eglot_shows_fixes_completes_and_tells(tmp_path: Path) -> None:
    assert EMACS is not None
    (tmp_path / "ds_config.json").write_text(TEXT)
    settings = subprocess.run([str(COMMAND), "editor", "emacs"], capture_output=True, text=True, check=True)
    (tmp_path / "settings.el").write_text(settings.stdout)
    (tmp_path / "drive.el").write_text(DRIVE)
    done = subprocess.run(
        [EMACS, "--batch", "-f", "package-initialize", "-l", "settings.el", "-l", "drive.el"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(tmp_path),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode == WITHOUT:
        pytest.skip("emacs has no eglot: it comes with 29, before that with the package elpa-eglot")
    assert done.returncode == 0, done.stderr
    out = json.loads((tmp_path / "out.json").read_text())
    assert out["line"] == 4
    assert "`enabeld`" in out["text"]
    assert out["hover"].startswith("`zero_optimization.stage`")
    assert "overlap_comm" in out["labels"]
    assert (tmp_path / "ds_config.json").read_text() == TEXT.replace("enabeld", "enabled")

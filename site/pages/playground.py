"""The playground that `make playground` built, or a placeholder page if it was not built."""

from __future__ import annotations

from pathlib import Path

BUILT = Path(__file__).resolve().parents[2] / "editors" / "dist" / "playground"
NONE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="This build of the site has no playground; use dsconfig check instead.">
<title>No playground – dsconfig</title>
<link rel="icon" href="data:,">
<style>
  :root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
  body { max-width: 40rem; margin: 15vh auto; padding: 0 1rem; }
</style>
<main>
<h1>This build of the site has no playground</h1>
<p>It was built on a machine without npm, which the playground requires. Run <code>make docs</code> on a machine with
npm to include it.</p>
<p>On the command line, <code>dsconfig check</code> reports the same diagnostics: see
<a href="../guides/first-check/">First check</a>. <a href="../">Home</a>.</p>
</main>
</html>
"""


def files(built: Path = BUILT) -> dict[str, bytes]:
    """The content of every file of the playground, by its path below `docs`."""
    if not (built / "index.html").is_file():
        return {"playground/index.html": NONE.encode()}
    return {f"playground/{path.name}": path.read_bytes() for path in built.iterdir() if path.is_file()}

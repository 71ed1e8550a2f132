"""A hook of mkdocs: each page gets a content security policy with the hashes of its inline scripts."""

from __future__ import annotations

import base64
import hashlib
import re

_SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<text>.*?)</script>", re.DOTALL)
_CHARSET = re.compile(r"<meta charset=\"?utf-8\"?>")


def on_post_page(output: str, **_: object) -> str:
    """Write the policy in front of everything that it is to hold for."""
    tag = f'<meta http-equiv="Content-Security-Policy" content="{policy(output)}">'
    return _CHARSET.sub(lambda found: f"{found[0]}\n{tag}", output, count=1)


def on_post_template(output_content: str, template_name: str, **_: object) -> str:
    """The same for the page that a dead link leads to."""
    return on_post_page(output_content) if template_name.endswith(".html") else output_content


def policy(page: str) -> str:
    """Scripts, workers and requests of the site alone; WebAssembly is for Pyodide, which the planners start.

    Styles may be inline: the theme and its tables write `style` attributes.
    """
    inline = [
        f"'sha256-{base64.b64encode(hashlib.sha256(found['text'].encode()).digest()).decode()}'"
        for found in _SCRIPT.finditer(page)
        if "src=" not in found["attributes"] and "application/json" not in found["attributes"]
    ]
    parts = {
        "default-src": ["'none'"],
        "script-src": ["'self'", "'wasm-unsafe-eval'", *sorted(set(inline))],
        "worker-src": ["'self'"],
        "connect-src": ["'self'"],
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
    }
    return "; ".join(" ".join((name, *sources)) for name, sources in parts.items())

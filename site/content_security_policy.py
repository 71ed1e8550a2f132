"""MkDocs hook that adds a content security policy with the hashes of inline scripts to each page."""

from __future__ import annotations

import base64
import hashlib
import re

_SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<text>.*?)</script>", re.DOTALL)
_CHARSET = re.compile(r"<meta charset=\"?utf-8\"?>")
_NEIGHBOR = re.compile(r"<link\s+rel=\"?(?:next|prev)\"?[^>]*>\s*")


def on_post_page(output: str, **_: object) -> str:
    """Insert the policy before everything to which it applies.

    Firefox prefetches the page of `rel=next`. No directive that it knows allows that short of `default-src`, so the
    links to neighboring pages in the head are left out.
    """
    output = _NEIGHBOR.sub("", output)
    tag = f'<meta http-equiv="Content-Security-Policy" content="{policy(output)}">'
    return _CHARSET.sub(lambda match: f"{match[0]}\n{tag}", output, count=1)


def on_post_template(output_content: str, template_name: str, **_: object) -> str:
    """Insert the policy into templates such as 404.html."""
    return on_post_page(output_content) if template_name.endswith(".html") else output_content


def policy(page: str) -> str:
    """The policy of a page: scripts, workers and requests of the site only, and WebAssembly for Pyodide.

    Inline styles are allowed, because the theme and its tables use `style` attributes.
    """
    inline = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script['text'].encode()).digest()).decode()}'"
        for script in _SCRIPT.finditer(page)
        if "src=" not in script["attributes"] and "application/json" not in script["attributes"]
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

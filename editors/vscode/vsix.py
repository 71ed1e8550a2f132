"""Build a `.vsix` from a directory: a zip with two more files, the manifest and the content types.

Usage: `python vsix.py FOLDER FILE.vsix`. The output is deterministic.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

TYPES = {
    ".archive": "application/gzip",
    ".cjs": "application/javascript",
    ".js": "application/javascript",
    ".json": "application/json",
    ".md": "text/markdown",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".vsixmanifest": "text/xml",
    ".wasm": "application/wasm",
}
STORED = (".archive", ".png")
"""Suffixes of files that are already compressed."""
ASSETS = {
    "Microsoft.VisualStudio.Code.Manifest": "package.json",
    "Microsoft.VisualStudio.Services.Content.Details": "README.md",
    "Microsoft.VisualStudio.Services.Content.Changelog": "CHANGELOG.md",
    "Microsoft.VisualStudio.Services.Content.License": "LICENSE.txt",
    "Microsoft.VisualStudio.Services.Icons.Default": "media/icon.png",
}


def manifest(package: dict) -> str:
    """Content of `extension.vsixmanifest`, which galleries and VS Code read first."""
    tags = ",".join([*package["keywords"], "__web_extension", "__ext_hjson"])
    assets = "".join(
        f'<Asset Type="{kind}" Path="extension/{path}" Addressable="true"/>' for kind, path in ASSETS.items()
    )
    name, publisher, version = (quoteattr(package[key]) for key in ("name", "publisher", "version"))
    engine = quoteattr(package["engines"]["vscode"])
    return f"""<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
<Metadata>
<Identity Language="en-US" Id={name} Version={version} Publisher={publisher}/>
<DisplayName>{escape(package["displayName"])}</DisplayName>
<Description xml:space="preserve">{escape(package["description"])}</Description>
<Tags>{escape(tags)}</Tags>
<Categories>{escape(",".join(package["categories"]))}</Categories>
<GalleryFlags>Public</GalleryFlags>
<License>extension/LICENSE.txt</License>
<Icon>extension/media/icon.png</Icon>
<Properties>
<Property Id="Microsoft.VisualStudio.Code.Engine" Value={engine}/>
<Property Id="Microsoft.VisualStudio.Code.ExtensionKind" Value="workspace,web"/>
<Property Id="Microsoft.VisualStudio.Services.Links.Learn" Value={quoteattr(package["homepage"])}/>
<Property Id="Microsoft.VisualStudio.Services.Links.Source" Value={quoteattr(package["repository"]["url"])}/>
<Property Id="Microsoft.VisualStudio.Services.Links.Support" Value={quoteattr(package["bugs"]["url"])}/>
</Properties>
</Metadata>
<Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
<Dependencies/>
<Assets>{assets}</Assets>
</PackageManifest>
"""


def types() -> str:
    """Content of `[Content_Types].xml`."""
    rows = "".join(f'<Default Extension="{end}" ContentType="{kind}"/>' for end, kind in TYPES.items())
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{rows}</Types>\n'
    )


def main(folder: Path, target: Path) -> None:
    """Write the file."""
    package = json.loads((folder / "package.json").read_text("utf-8"))
    texts = {"extension.vsixmanifest": manifest(package), "[Content_Types].xml": types()}
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    with zipfile.ZipFile(target, "w", compresslevel=9) as archive:
        for name, text in texts.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
        for path in files:
            if path.suffix not in TYPES:
                raise SystemExit(f"{path}: no type is known for {path.suffix}")
            name = f"extension/{path.relative_to(folder).as_posix()}"
            compression = zipfile.ZIP_STORED if path.suffix in STORED else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), compression)
    print(f"{target.name}: {target.stat().st_size:,} bytes, {len(files)} files")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

#!/usr/bin/env python3
"""Builds a wheel that carries the shared library, with the standard library alone.

    wheel.py LIBRARY [FOLDER]    such as wheel.py ../target/release/liblinerate.so dist
"""
import base64
import csv
import hashlib
import io
import platform
import re
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# A wheel's files have one date, so that the same sources make the same wheel.
DATE = (1980, 1, 1, 0, 0, 0)


def project():
    """Name, version and the like, as pyproject.toml has them; Python 3.9 has no reader for it."""
    text = (HERE / "pyproject.toml").read_text()
    return dict(re.findall(r'^([a-z-]+) = "(.*)"$', text.split("[project]")[1], re.MULTILINE))


def tag(library):
    """What the wheel runs on: any Python 3 on Linux with the C library that the shared library asks for (PEP 600)."""
    versions = {tuple(map(int, found.split(b"."))) for found in re.findall(rb"GLIBC_(\d+\.\d+)(?=[.\x00\d])", library)}
    major, minor = max(versions, default=(2, 17))
    return f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"


def metadata(about):
    """METADATA (PEP 566)."""
    lines = ["Metadata-Version: 2.1", f"Name: {about['name']}", f"Version: {about['version']}", f"Summary: {about['description']}",
             "License: MIT OR Apache-2.0", f"Requires-Python: {about['requires-python']}", "Description-Content-Type: text/markdown", ""]
    return "\n".join(lines) + "\n" + (HERE / "README.md").read_text()


def build(library, folder):
    """Writes the wheel into `folder`, and gives its path."""
    about, content = project(), library.read_bytes()
    kind = tag(content)
    name = f"{about['name']}-{about['version']}"
    files = {f"linerate/{path.name}": path.read_bytes() for path in sorted((HERE / "linerate").iterdir()) if path.suffix in (".py", ".typed")}
    files["linerate/liblinerate.so"] = content
    files[f"{name}.dist-info/METADATA"] = metadata(about).encode()
    files[f"{name}.dist-info/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: linerate\nRoot-Is-Purelib: false\nTag: {kind}\n".encode()
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow((path, f"sha256={digest}", len(data)))
    rows.writerow((f"{name}.dist-info/RECORD", "", ""))
    files[f"{name}.dist-info/RECORD"] = record.getvalue().encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{kind}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if path.endswith(".so") else 0o644) << 16
            archive.writestr(entry, data)
    return wheel


def main():
    """Parses the command line and builds."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    print(build(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) == 3 else Path("dist")))


if __name__ == "__main__":
    main()

"""The components of kgm as CycloneDX JSON: `python -m tools.release.sbom WHEEL [-o FILE] [--extra NAME] [-- options of uv]`.

The wheel is installed into a fresh environment, and cyclonedx-bom lists what is there: the distributions with their
versions, licences and package URLs, and which one needs which. With the same versions and SOURCE_DATE_EPOCH the file is
the same, byte for byte."""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence

from kgm.model.distribution import DISTRIBUTION
from kgm.version import __version__

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("kafka-kgm.cdx.json"))
    parser.add_argument("--extra", action="append", default=[], help="with what an extra of kgm needs; repeatable")
    words, pip = list(sys.argv[1:]), list[str]()
    if "--" in words:
        words, pip = words[: words.index("--")], words[words.index("--") + 1 :]
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        python = install(pathlib.Path(folder), arguments.wheel, arguments.extra, pip)
        arguments.output.write_text(components(python, arguments.wheel))
    print(f"{arguments.output}: {arguments.output.stat().st_size / 1e3:.0f} kB")


def install(folder: pathlib.Path, wheel: pathlib.Path, extras: Sequence[str], pip: Sequence[str]) -> pathlib.Path:
    """Install the wheel with these extras into a new environment; its Python."""
    wanted = f"{wheel.resolve()}[{','.join(extras)}]" if extras else str(wheel.resolve())
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", str(python), *pip, wanted]
    subprocess.run(command, check=True)
    return python


def components(python: pathlib.Path, wheel: pathlib.Path, *, check: bool = True) -> str:
    """What is installed in the environment of this Python. check: against the schema of CycloneDX, which takes a while."""
    command = [
        sys.executable,
        "-m",
        "cyclonedx_py",
        "environment",
        "--output-reproducible",
        "--of",
        "JSON",
        str(python),
    ]
    options = ["--pyproject", str(ROOT / "pyproject.toml"), "--validate" if check else "--no-validate"]
    document = json.loads(subprocess.run([*command, *options], check=True, capture_output=True, text=True).stdout)
    # The version is not in pyproject.toml, and the wheel is known here only.
    digest = {"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}
    document["metadata"]["component"] |= {
        "version": __version__, "purl": f"pkg:pypi/{DISTRIBUTION}@{__version__}", "hashes": [digest],
    }  # fmt: skip
    return json.dumps(document, indent=2) + "\n"


if __name__ == "__main__":
    main()

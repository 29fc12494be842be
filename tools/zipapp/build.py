"""Make `kgm.pyz`: `python -m tools.zipapp.build [FILE] [-- options of pip install]`.

The file has the packages that pip would install here, and runs on machines with the same Python and platform."""

import argparse
import hashlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

from tools.zipapp import bootstrap_source

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=pathlib.Path("kgm.pyz"))
    parser.add_argument("--source", default=str(ROOT), help="what pip installs: this checkout, a wheel, kafka-kgm==X")
    parser.add_argument("pip", nargs="*", help="options of pip install, behind --")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        packages = pathlib.Path(folder)
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", folder, "--no-compile", *arguments.pip]
        subprocess.run([*command, arguments.source], check=True)
        shutil.rmtree(packages / "bin", ignore_errors=True)
        write(arguments.file, packages)
    print(f"{arguments.file}: {arguments.file.stat().st_size / 1e6:.1f} MB")


def write(file: pathlib.Path, packages: pathlib.Path) -> None:
    """Write the file with these packages."""
    # By hash, not by time: the files get other times where they are unpacked. In a process of its own, because bytecode
    # depends on which strings the process that compiles has already.
    options = ["-q", "--invalidation-mode", "unchecked-hash", "-s", str(packages)]
    command = [sys.executable, "-m", "compileall", *options, str(packages)]
    subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "0"}, stdout=subprocess.DEVNULL, check=False)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as inner:
        for path in sorted(each for each in packages.rglob("*") if each.is_file()):
            inner.writestr(entry(str(path.relative_to(packages))), path.read_bytes())
    content = archive.getvalue()
    code = bootstrap_source(hashlib.sha256(content).hexdigest()[:32])
    with file.open("wb") as out:
        out.write(b"#!/usr/bin/env -S python3 -I\n")
        with zipfile.ZipFile(out, "w") as outer:
            outer.writestr(entry("__main__.py"), code)
            outer.writestr(entry("packages.zip"), content)
    file.chmod(0o755)


def entry(name: str) -> zipfile.ZipInfo:
    """With the same time each time, so that the same packages make the same file."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_STORED if name in ("__main__.py", "packages.zip") else zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info


if __name__ == "__main__":
    main()

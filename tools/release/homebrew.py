"""A Homebrew formula for a tap: `python -m tools.release.homebrew SDIST --url URL --homepage URL [--lock FILE] > kafka-kgm.rb`.

SDIST is the file that was uploaded, URL its address there. Homebrew builds everything from source in an environment of
its own, so the formula names the sdist of each distribution that kgm needs (with the extra `demo`), with its address and
SHA-256. They are those that uv resolves now, on macOS and Linux; --lock takes a pylock.toml (PEP 751) that it wrote
before, so that the formula can be made again.

The formula is not in the repository: it names a file that exists only after a release, and the versions of that day."""

from __future__ import annotations

import argparse
import hashlib
import pathlib
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from typing import Any

from packaging.markers import Marker

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = "3.13"
EXTRAS = ("demo",)
#: What compiled distributions are built with, beside a C compiler: of Homebrew's names, those that are needed to build
#: only, and those that are needed to run too. One that is not listed is an error.
BUILD_NEEDS = {"fastcrc": ("rust",), "google-re2": ("pybind11",), "confluent-kafka": (), "msgspec": (), "xxhash": ()}
RUN_NEEDS = {"google-re2": ("abseil", "re2"), "confluent-kafka": ("librdkafka",)}
_PLATFORMS = (
    {"sys_platform": "darwin", "platform_system": "Darwin"},
    {"sys_platform": "linux", "platform_system": "Linux"},
)

FORMULA = """\
class KafkaKgm < Formula
  include Language::Python::Virtualenv

  desc "{description}"
  homepage "{homepage}"
  url "{url}"
  sha256 "{sha256}"
  license "{license}"

{depends}

{resources}

  def install
    virtualenv_install_with_resources
    bash_completion.install "completions/kgm.bash" => "kgm"
    fish_completion.install "completions/kgm.fish"
    zsh_completion.install "completions/_kgm"
    man1.install Dir["man/*.1"]
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/kgm --version")
    output = shell_output("#{{bin}}/kgm simulate-bounce --members 2 --topic orders:4 --all -o json")
    assert_match "kgm.simulate-bounce/v1", output
  end
end
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sdist", type=pathlib.Path)
    parser.add_argument("--url", required=True, help="where the sdist was uploaded to")
    parser.add_argument("--homepage", required=True)
    parser.add_argument("--lock", type=pathlib.Path, help="a pylock.toml, instead of asking uv for one")
    arguments = parser.parse_args()
    text = locked() if arguments.lock is None else arguments.lock.read_text()
    digest = hashlib.sha256(arguments.sdist.read_bytes()).hexdigest()
    sys.stdout.write(formula(tomllib.loads(text), url=arguments.url, sha256=digest, homepage=arguments.homepage))


def locked() -> str:
    """What uv resolves now, as a pylock.toml."""
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    command = [sys.executable, "-m", "uv", "pip", "compile", "-q", "--universal", "--python-version", PYTHON, *extras]
    form = ["--format", "pylock.toml", "pyproject.toml"]
    return subprocess.run([*command, *form], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def formula(lock: dict[str, Any], *, url: str, sha256: str, homepage: str) -> str:
    """The formula. lock: a pylock.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = sorted((one for one in lock["packages"] if _is_needed(one)), key=lambda one: str(one["name"]))
    return FORMULA.format(
        description=project["description"], license=project["license"]["text"], homepage=homepage, url=url, sha256=sha256,
        depends="\n".join(_depends([one["name"] for one in packages if not _is_pure(one)])),
        resources="\n\n".join(map(_resource, packages)),
    )  # fmt: skip


def _is_needed(package: dict[str, Any]) -> bool:
    """Whether it is needed on macOS or Linux, which is where Homebrew runs."""
    marker = package.get("marker")
    return marker is None or any(Marker(marker).evaluate({**on, "python_version": PYTHON}) for on in _PLATFORMS)


def _is_pure(package: dict[str, Any]) -> bool:
    return any(_file(wheel).endswith("-none-any.whl") for wheel in package.get("wheels", ()))


def _file(archive: dict[str, Any]) -> str:
    return str(archive.get("url") or archive.get("path"))


def _depends(compiled: Iterable[str]) -> list[str]:
    """Homebrew's order: what is needed to build, then the rest, each by name."""
    names = list(compiled)
    if unknown := [name for name in names if name not in BUILD_NEEDS]:
        raise SystemExit(f"{unknown[0]} is compiled: say in BUILD_NEEDS what it is built with")
    build = sorted({need for name in names for need in BUILD_NEEDS[name]})
    run = sorted({f"python@{PYTHON}", *(need for name in names for need in RUN_NEEDS.get(name, ()))})
    return [*(f'  depends_on "{need}" => :build' for need in build), *(f'  depends_on "{need}"' for need in run)]


def _resource(package: dict[str, Any]) -> str:
    sdist = package.get("sdist")
    if sdist is None:
        raise SystemExit(f"{package['name']} {package['version']} has no sdist")
    return (
        f'  resource "{package["name"]}" do\n    url "{_file(sdist)}"\n    sha256 "{sdist["hashes"]["sha256"]}"\n  end'
    )


if __name__ == "__main__":
    main()

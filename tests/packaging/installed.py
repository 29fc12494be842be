"""The distributions of this environment: which ones kgm needs, and their wheels, so that nothing has to be fetched."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import pathlib
import zipfile
from collections.abc import Iterable
from email.parser import HeaderParser

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

#: Files that an installer adds to the metadata of what it installs.
_OF_INSTALLERS = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")


def required(name: str, extras: Iterable[str] = ()) -> set[str]:
    """The normalized names of the distributions that `name` needs with these extras, without itself."""
    found: set[str] = set()
    waiting = [(name, extra) for extra in ("", *extras)]
    while waiting:
        above, extra = waiting.pop()
        for line in importlib.metadata.requires(above) or ():
            requirement = Requirement(line)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
            below = canonicalize_name(requirement.name)
            waiting += [(below, wanted) for wanted in ("", *requirement.extras) if below not in found or wanted]
            found.add(below)
    return found


def wheel_of(name: str, folder: pathlib.Path) -> pathlib.Path:
    """A wheel of an installed distribution, as it would be downloaded."""
    distribution = importlib.metadata.distribution(name)
    tags = HeaderParser().parsestr(distribution.read_text("WHEEL") or "").get_all("Tag", [])
    tag = "-".join(".".join(sorted(set(part))) for part in zip(*(each.split("-") for each in tags), strict=True))
    normalised = distribution.name.replace("-", "_")
    file = folder / f"{normalised}-{distribution.version}-{tag}.whl"
    rows, record = [], ""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for path in distribution.files or ():
            record = str(path) if path.name == "RECORD" else record
            if path.parts[0] == ".." or "__pycache__" in path.parts or path.name in _OF_INSTALLERS:
                continue
            content = path.read_binary()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            rows.append(f"{path},sha256={digest},{len(content)}")
            archive.writestr(str(path), content)
        archive.writestr(record, "\n".join([*rows, f"{record},,", ""]))
    return file

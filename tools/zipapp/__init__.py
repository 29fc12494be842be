"""`kgm.pyz`: kgm and what it needs as one file, for machines on which nothing is installed but Python."""

import pathlib
import sys
import sysconfig


def bootstrap_source(digest: str) -> str:
    """`bootstrap.py` for packages with this digest, which were installed by this Python."""
    platform = f"{sys.implementation.cache_tag} {sysconfig.get_platform()}"
    text = pathlib.Path(__file__).with_name("bootstrap.py").read_text()
    return text.replace("@DIGEST@", digest).replace("@PLATFORM@", platform)

"""The `__main__.py` of `kgm.pyz`: unpacks the packages once for each user, and runs kgm from there.

Python cannot load shared libraries from a zip file, and takes longer to import from one. The file has two entries
only, this one and the archive with the packages, so that Python has next to nothing to read before it gets here."""

import os
import stat
import sys

#: Filled in when the file is built. The packages with shared libraries are for one platform.
DIGEST = "@DIGEST@"
PLATFORM = "@PLATFORM@"
ARCHIVE = "packages.zip"


def packages() -> str:
    """The folder with the packages, unpacked now if it is not there."""
    root = os.environ.get("KGM_ZIPAPP_CACHE")
    if not root:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        root = os.path.join(cache, "kgm", "zipapp")
    folder = os.path.join(root, DIGEST)
    if not os.path.isdir(folder):
        try:
            os.makedirs(root, mode=0o700, exist_ok=True)
            unpack(root, folder)
        except OSError as error:
            sys.exit(
                f"kgm: cannot unpack into {root}: {error.strerror}\n"
                "  hint: name a folder that can be written: KGM_ZIPAPP_CACHE=DIR"
            )
    mine = os.stat(folder)
    if mine.st_uid != os.getuid() or mine.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        sys.exit(f"kgm: {folder} belongs to another user, or others may write to it; it is not run")
    return folder


def unpack(root: str, folder: str) -> None:
    """Unpack beside the folder and rename: two that start at once do not see a part of it."""
    # Imported here, because most starts of kgm do without.
    import io
    import shutil
    import sysconfig
    import tempfile
    import zipfile
    import zipimport

    here = f"{sys.implementation.cache_tag} {sysconfig.get_platform()}"
    if here != PLATFORM:
        sys.exit(f"kgm: this file was built for {PLATFORM}, and this is {here}")
    loader = zipimport.zipimporter(sys.path[0])
    beside = tempfile.mkdtemp(dir=root)
    with zipfile.ZipFile(io.BytesIO(loader.get_data(ARCHIVE))) as archive:
        archive.extractall(beside)
    try:
        os.rename(beside, folder)
    except OSError:
        if not os.path.isdir(folder):
            raise
        shutil.rmtree(beside)  # another one was first


sys.path.insert(0, packages())

from kgm.cli.entry import main  # noqa: E402  (it is found there)

sys.exit(main())

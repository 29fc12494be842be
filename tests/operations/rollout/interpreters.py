"""Stand-ins for the programs that a rollout's command calls, which parse their arguments as the real ones do.

ssh joins its words and passes them to a shell. ansible treats its first argument as a host pattern. `kubectl exec` and
`docker exec` pass their words on unchanged. `sudo` runs them; programs that restart something, and all other names, do
nothing. The file named by CANARY appears when something ran that is not part of the command, or when ansible addresses
a host other than the intended one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_SSH = """#!/bin/sh
while [ $# -gt 0 ]; do
    case "$1" in
        -o|-i|-l|-p) shift 2 ;;
        -*) shift ;;
        *) break ;;
    esac
done
shift
exec sh -c "$*"
"""
_EXEC = """#!/bin/sh
while [ $# -gt 0 ] && [ "$1" != exec ]; do shift; done
[ $# -gt 0 ] || exit 0
shift
while [ $# -gt 0 ]; do
    case "$1" in
        -n|-c|-u|-w) shift 2 ;;
        -*) shift ;;
        *) break ;;
    esac
done
shift
[ "$1" != -- ] || shift
[ $# -eq 0 ] || exec "$@"
"""
_ANSIBLE = """#!{python} -SE
import argparse, fnmatch, os, re, sys
parser = argparse.ArgumentParser()
parser.add_argument("pattern")
parser.add_argument("-i", "--inventory", default="app-1,app-2,app-3")
parser.add_argument("-l", "--limit", default="all")
parser.add_argument("-m")
parser.add_argument("-a", default="")
parser.add_argument("--become", action="store_true")
given = parser.parse_args()
hosts = [name for name in given.inventory.split(",") if name]


def matching(patterns):
    found = set()
    for pattern in re.split("[,:]", patterns):
        if pattern.startswith(("!", "&")):
            found |= set(hosts)
        found |= set(hosts) if pattern == "all" else {{name for name in hosts if fnmatch.fnmatch(name, pattern)}}
    return found


if len(matching(given.pattern) & matching(given.limit)) > 1:
    open(os.environ["CANARY"], "w").close()
if given.m in ("shell", "ansible.builtin.shell"):
    sys.exit(os.system(given.a))
"""
_SUDO = '#!/bin/sh\nexec "$@"\n'
_NOTHING = "#!/bin/sh\nexit 0\n"
_TEXTS = {
    "ssh": _SSH, "kubectl": _EXEC, "docker": _EXEC, "ansible": _ANSIBLE.format(python=sys.executable), "sudo": _SUDO,
}  # fmt: skip


class Interpreters:
    """The stand-ins in a folder. canary: does not exist unless a value was interpreted."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.canary = folder / "bin", folder / "CANARY"
        self.folder.mkdir()
        for name, text in _TEXTS.items():
            self._write(name, text)

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)

    def provide(self, names: Iterable[str]) -> None:
        """Programs that do nothing, unless they are a shell's own."""
        for name in names:
            if "/" not in name and name not in (*_TEXTS, "sh", "test", "touch") and not (self.folder / name).exists():
                self._write(name, _NOTHING)

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": f"{self.folder}:{os.environ['PATH']}", "CANARY": str(self.canary)}

    def run(self, argv: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Run a command. Returns whether any part of a value was interpreted."""
        subprocess.run(
            argv, env=dict(environment), cwd=self.folder.parent, capture_output=True, timeout=60, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        appeared = self.canary.exists()
        self.canary.unlink(missing_ok=True)
        return appeared

"""A standalone master of Spark with workers, on the loopback interface."""

import contextlib
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.kafka.process import Child
from tests.needs import needs
from tests.waiting import until

HOME = Path(find_spec("pyspark").origin).parent
#: Options of each of its JVMs.
SMALL = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


class Daemons:
    """A master and its workers, each a process that a test ends by its id."""

    def __init__(self, folder):
        self.folder = folder
        self.children = []

    def start(self, *arguments):
        environment = [needs("env"), "SPARK_LOCAL_IP=127.0.0.1", "SPARK_DAEMON_MEMORY=200m", f"SPARK_DAEMON_JAVA_OPTS={' '.join(SMALL)}",
                       f"PYSPARK_PYTHON={sys.executable}", f"SPARK_HOME={HOME}"]  # fmt: skip
        log = self.folder / f"daemon-{len(self.children)}.log"
        child = Child([*environment, str(HOME / "bin" / "spark-class"), *arguments], log=log)
        self.children.append(child)
        return log

    def cluster(self, workers=2):
        """The address of a master with `workers` workers of one core each."""
        log = self.start(
            "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
        )
        url = in_log(log, r"Starting Spark master at (spark://\S+)")[0]
        for _ in range(workers):
            self.start("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1",
                       "--memory", "700m", "--work-dir", str(self.folder / "work"), url)  # fmt: skip
        in_log(log, r"Registering worker", workers)
        return url

    def executors(self):
        """The process ids of the executors' JVMs."""
        return [pid for child in self.children for pid in tree(child.pid)
                if "CoarseGrainedExecutorBackend" in command_of(pid)]  # fmt: skip

    def stop(self):
        for child in reversed(self.children):
            child.kill()


def in_log(log, pattern, count=1):
    """The matches of a pattern in a log, once there are `count` of them."""
    return until(
        lambda: re.findall(pattern, log.read_text(errors="replace")) if log.exists() else [],
        lambda: f"{pattern} in {log}: {log.read_text(errors='replace')[-2000:]}",
        180,
        accept=lambda found: len(found) >= count,
        every_s=0.1,
    )


def tree(pid):
    """The ids of a process and all its descendants."""
    below = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with contextlib.suppress(OSError):
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                below.setdefault(parent, []).append(int(path.name))
    found, waiting = [], [pid]
    while waiting:
        found.append(waiting.pop())
        waiting += below.get(found[-1], [])
    return found


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def is_connected(pid, port):
    """Whether a process, or a descendant, has a connection to a port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    there = {f"socket:[{row[9]}]" for row in rows if int(row[2].rpartition(":")[2], 16) == port}
    for each in tree(pid):
        with contextlib.suppress(OSError):
            for handle in Path(f"/proc/{each}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(handle.readlink()) in there:
                        return True
    return False

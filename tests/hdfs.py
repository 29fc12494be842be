"""An HDFS of one name node and one data node, in one JVM, reached over HTTP."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from kgm.history.places.remote_path import RemotePath
from tests.kafka.jars import classpath
from tests.kafka.java_tools import QUICK, compiled
from tests.kafka.process import Child
from tests.kafka.runtime import executable
from tests.waiting import until

_MAIN = """
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

public class MiniHdfs {
    public static void main(String[] args) throws Exception {
        Configuration conf = new Configuration();
        conf.set("hdfs.minidfs.basedir", args[0]);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
        cluster.waitActive();
        System.out.println("ready " + cluster.getNameNode().getHttpAddress().getPort());
        System.in.read();
        Runtime.getRuntime().halt(0);
    }
}
"""


class MiniHdfs:
    """It ends when its stdin does, so it does not outlive this process."""

    def __init__(self, folder: Path) -> None:
        jars = classpath("hadoop-minicluster-3.4.1")
        source = folder / "MiniHdfs.java"
        source.write_text(_MAIN)
        classes = compiled([source], jars)
        command = [
            executable("java"),
            "-Xmx512m",
            *QUICK,
            "-cp",
            os.pathsep.join([jars, str(classes)]),
            "MiniHdfs",
            str(folder / "data"),
        ]
        self._child = Child(command, log=folder / "hdfs.log", pipe_stdout=True)
        line = until(self._child.stdout.readline, lambda: self._child.log_tail(40), 120, accept=self._is_last)
        assert line.startswith("ready "), self._child.log_tail(40)
        self._port = int(line.split()[1])
        self._numbers = itertools.count(1)

    def _is_last(self, line: str) -> bool:
        return line.startswith("ready ") or not self._child.running

    def directory(self) -> RemotePath:
        """A new directory."""
        return RemotePath(f"webhdfs://127.0.0.1:{self._port}", f"kgm/{next(self._numbers)}")

    def stop(self) -> None:
        self._child.kill()
        self._child.stdout.close()

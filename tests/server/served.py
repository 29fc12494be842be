"""`kgm serve` as a process that a test can kill, and start again at the same address."""

import json
import os
import signal
import subprocess
import threading

from tests import KGM

COMMAND = [*KGM, "serve"]
PATIENCE_S = 60


class ServedProcess:
    """One data directory, one address, and one process after the other."""

    def __init__(self, data_dir, *arguments):
        self.data_dir = data_dir
        self.arguments = ["--data-dir", str(data_dir), *arguments]
        self.address = "127.0.0.1:0"
        self.said = []
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            [*COMMAND, "--listen", self.address, *self.arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._listener = threading.Thread(target=self._listen, args=(self.process.stderr,), daemon=True)
        self._listener.start()
        line = self.process.stdout.readline()
        assert line, f"kgm serve did not start: {self.said}"
        self.address = json.loads(line)["listening"]
        return self

    def _listen(self, stderr):
        with stderr:
            for line in stderr:
                self.said.append(line.rstrip("\n"))

    @property
    def port(self):
        return int(self.address.rpartition(":")[2])

    def kill(self):
        """SIGKILL: no client is told, and nothing is flushed."""
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGKILL)
            self._gone()

    def end(self):
        """SIGTERM; returns the exit code."""
        self.process.terminate()
        return self._gone()

    def _gone(self):
        code = self.process.wait(timeout=PATIENCE_S)
        self._listener.join()
        self.process.stdout.close()
        self.process = None
        return code

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()

# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
"""The parent of one task: a process in its own session, so that the task keeps running
without the plugin. It copies the task's output to the log files and stores the result
in the task's directory, which contains:

    spec.json    what to run (written by the driver as start-..., renamed by the runner)
    task.json    the process that the runner has started (written atomically)
    result.json  how it ended (written atomically)
    alive        a FIFO that the runner holds open: readers get EOF when the task
                 has ended or the runner is gone
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

COMMAND = "run-task"


class Log:
    """The numbered files of one output: PREFIX.0, PREFIX.1 and so on.

    Errors of these files must neither block nor end the task."""

    def __init__(self, prefix, max_files, max_mb):
        self.prefix, self.keep, self.limit = prefix, max(max_files, 1), max(max_mb, 1) << 20
        self.index, self.fd = self.newest(), None
        self.open()

    def newest(self):
        name = os.path.basename(self.prefix) + "."
        numbers = [0]
        for entry in os.listdir(os.path.dirname(self.prefix)):
            if entry.startswith(name) and re.fullmatch(r"\d+", entry[len(name):]):
                numbers.append(int(entry[len(name):]))
        return max(numbers)

    def open(self):
        if self.fd is not None:
            os.close(self.fd)
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
        self.fd = os.open(f"{self.prefix}.{self.index}", flags, 0o644)
        self.size = os.fstat(self.fd).st_size

    def write(self, data):
        while data:
            if self.size >= self.limit:
                self.index += 1
                self.open()
                try:
                    os.unlink(f"{self.prefix}.{self.index - self.keep}")
                except OSError:
                    pass  # it did not exist
            n = os.write(self.fd, data[: self.limit - self.size])
            self.size, data = self.size + n, data[n:]


def copy(fd, log):
    while True:
        data = os.read(fd, 65536)
        if not data:
            return
        try:
            log.write(data)
        except OSError:
            pass  # dropped, because the disk is full or the directory is gone


def enter(cgroup):
    """Returns what a new process does first: it enters its task's cgroup, which has the
    limits of the task (memory, memory_max, cpu and cores)."""

    def child():
        for folder in cgroup:
            with open(os.path.join(folder, "cgroup.procs"), "w") as f:
                f.write("0")  # the writer itself

    return child


def say(**first):
    """Reports the result of the start to the driver, which reads one message."""
    os.write(1, (json.dumps(first) + "\n").encode())
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)


def write(path, value):
    """Writes a file that appears only when it is complete."""
    with open(path + ".new", "w") as f:
        json.dump(value, f)
    os.rename(path + ".new", path)


def run(orders):
    folder = os.path.dirname(orders)
    # The runner must survive the signals of a terminal or to a process group. It uses
    # handlers instead of SIG_IGN, which a task would inherit.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, lambda *_: None)
    alive = os.open(os.path.join(folder, "alive"), os.O_RDWR)
    try:
        os.rename(orders, os.path.join(folder, "spec.json"))
    except OSError as e:
        say(error=f"the task was destroyed before it was started: {e}")
        return 1
    with open(os.path.join(folder, "spec.json")) as f:
        spec = json.load(f)
    try:
        logs = [] if spec["discard"] else [Log(spec[name], spec["max_files"], spec["max_mb"]) for name in ("stdout", "stderr")]
        to = subprocess.PIPE if logs else subprocess.DEVNULL
        # restore_signals restores the signals that Python ignores (SIGPIPE).
        task = subprocess.Popen(spec["command"], env=spec["env"], cwd=spec["dir"], stdin=subprocess.DEVNULL,
                                stdout=to, stderr=to, start_new_session=True, restore_signals=True,
                                preexec_fn=enter(spec["cgroup"]))
    except (OSError, subprocess.SubprocessError) as e:
        say(error=str(e))
        return 1
    first = {"pid": task.pid, "at": time.time()}
    try:
        write(os.path.join(folder, "task.json"), first)
    except OSError as e:
        os.killpg(task.pid, signal.SIGKILL)  # nobody could find it
        say(error=str(e))
        return 1
    copiers = []
    for stream, log in zip((task.stdout, task.stderr), logs):
        copiers.append(threading.Thread(target=copy, args=(stream.fileno(), log)))
        copiers[-1].start()
    say(**first)
    code = task.wait()
    result = {"exit_code": code, "signal": 0, "exited_at": time.time()}
    if code < 0:
        result.update(exit_code=128 - code, signal=-code)
    write(os.path.join(folder, "result.json"), result)
    os.close(alive)
    for c in copiers:  # children of the task may still write
        c.join()
    return 0

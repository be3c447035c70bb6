#!/usr/bin/env python3
# timeout: 150
"""The first thing a newcomer sees: the demo starts by itself, shows the table within 30 s, ends with status 0, stops what
it started and nothing else; installing puts every file in its place."""
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

from fleet import ROOT, free_port, wait_until
from story import expect, note, story, tell

DEMO = os.path.join(ROOT, "tests", "workloads", "demo.py")


def port_base():
    """Six ports as the demo wants them, all free."""
    while True:
        base = free_port()
        with contextlib.ExitStack() as held:
            try:
                for port in [base + i for i in range(3)] + [base + 100 + i for i in range(3)]:
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port))
                return base
            except (OSError, OverflowError):
                continue


class Demo:
    """One run of the demo with its output in a file."""

    def __init__(self, *argv):
        self.base = port_base()
        self.file = tempfile.TemporaryFile()
        self.began = time.monotonic()
        self.process = subprocess.Popen([sys.executable, DEMO] + list(argv), stdout=self.file, stderr=subprocess.STDOUT,
                                        env=dict(os.environ, PORT_BASE=str(self.base), PYTHONUNBUFFERED="1"))

    def text(self):
        self.file.seek(0)
        return self.file.read().decode("utf-8", "replace")

    def end(self, seconds):
        return self.process.wait(seconds)


def offspring(pid):
    """Every process whose line of parents leads to pid."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError):
            with open("/proc/%s/stat" % name, encoding="ascii", errors="replace") as file:
                parents[int(name)] = int(file.read().rsplit(")", 1)[1].split()[1])
    found = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return found - {pid}
        found |= more


@contextlib.contextmanager
def scene():
    timed, stopped = Demo("--workloads", "--seconds", "25"), Demo()
    try:
        wait_until(lambda: "FUNCTION" in timed.text() or timed.process.poll() is not None, 40, "the demo's table")
        timed.table_s = time.monotonic() - timed.began
        wait_until(lambda: "FUNCTION" in stopped.text() or stopped.process.poll() is not None, 40, "the other's table")
        stopped.children = offspring(stopped.process.pid)
        stopped.process.send_signal(signal.SIGINT)
        stopped.status = stopped.end(40)
        timed.status = timed.end(60)
        yield timed, stopped
    finally:
        for demo in (timed, stopped):
            if demo.process.poll() is None:
                demo.process.terminate()
                demo.process.wait(30)


@story("the table is there within 30 s")
def _(demos):
    note("after %.1f s" % demos[0].table_s)
    expect(demos[0].table_s < 30 and "FUNCTION" in demos[0].text(), demos[0].text()[-1500:])


@story("it names the workloads' functions, the address and the next commands")
def _(demos):
    text = demos[0].text()
    for word in ("spin_50", "http://127.0.0.1:%d" % demos[0].base, "top --since", "pprof", "agents"):
        expect(word in text, "%s is not in the output: %s" % (word, text[-3000:]))


@story("it ends by itself with status 0")
def _(demos):
    expect(demos[0].status == 0, "status %s: %s" % (demos[0].status, demos[0].text()[-1500:]))


@story("Ctrl-C stops everything it started, with status 0")
def _(demos):
    expect(demos[1].status == 0, "status %s: %s" % (demos[1].status, demos[1].text()[-1500:]))
    expect(len(demos[1].children) >= 5, "only %d processes were running" % len(demos[1].children))
    left = [pid for pid in demos[1].children if os.path.exists("/proc/%d" % pid)]
    expect(not left, "still running: %s" % left)


@story("a port in use is a clear message and no start")
def _(_demos):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run([sys.executable, DEMO], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                              env=dict(os.environ, PORT_BASE=str(port)), timeout=60, check=False)
    expect(done.returncode != 0 and str(port) in done.stderr and "PORT_BASE" in done.stderr, done.stderr)


@story("make install puts programs, units, settings and documents in their places")
def _(_demos):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["make", "-C", ROOT, "install", "DESTDIR=" + folder, "PREFIX=/opt/fp"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False)
        expect(done.returncode == 0, done.stdout[-1500:])
        for name in ("opt/fp/bin/node-agent", "opt/fp/bin/aggregator", "opt/fp/bin/fleetprof",
                     "opt/fp/lib/systemd/system/fleetprof-node-agent.service", "etc/fleetprof/node-agent.conf",
                     "etc/fleetprof/aggregator.conf", "opt/fp/share/doc/fleetprof/README.md"):
            expect(os.path.exists(os.path.join(folder, name)), "%s is missing" % name)
        with open(os.path.join(folder, "opt/fp/lib/systemd/system/fleetprof-aggregator.service"), encoding="utf-8") as file:
            expect(re.search(r"^ExecStart=/opt/fp/bin/aggregator ", file.read(), re.M), "the unit names another path")


@story("the example settings are read by the programs they are for")
def _(_demos):
    for name in ("node-agent", "aggregator"):
        path = os.path.join(ROOT, "packaging", name + ".conf")
        # A wrong option after the file is told only when the file itself was read well.
        done = subprocess.run([os.path.join(ROOT, "out/rel/bin", name), "--config", path, "--no-such-option"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=20, check=False)
        expect(done.returncode != 0 and "no-such-option" in done.stdout, "%s: %s" % (name, done.stdout))


tell(scene)

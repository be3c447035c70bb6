#!/usr/bin/env python3
# timeout: 120
"""A program runs from a file system that has stopped answering: the agent starts, samples, names everything else, ends
in time. Such a file costs its own names and nothing more."""
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time

from fleet import Child, Fleet, wait_until, workload
from story import Skip, expect, note, story, tell

RUN_S = 12
MNT_DETACH = 2


@contextlib.contextmanager
def hanging_program(folder):
    """A program without build id that burns CPU on a file system that then hangs."""
    if not os.path.exists("/dev/fuse"):
        raise Skip("/dev/fuse is missing")
    plain, point = os.path.join(folder, "plain"), os.path.join(folder, "mnt")
    os.mkdir(point)
    subprocess.run(["objcopy", "--remove-section", ".note.gnu.build-id", workload("lay-pie"), plain], check=True)
    server = Child("hung_fs", [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "hung_fs.py"), point, plain],
                   folder).start()
    job = None
    try:
        wait_until(lambda: "mounted" in server.output(), 10, "the mount: " + server.log())
        job = Child("program", [os.path.join(point, "program"), 60], folder).start()
        wait_until(lambda: os.path.exists("/proc/%d/exe" % job.pid) and
                   "program" in os.readlink("/proc/%d/exe" % job.pid), 10, "the program")
        time.sleep(0.5)  # it has touched its pages by then; what it has not would stop it, and with it the load
        os.kill(server.pid, signal.SIGUSR1)
        wait_until(lambda: "hung" in server.output(), 10, "the hang")
        yield server, job
    finally:
        server.kill9()  # closes the connection: whoever waits gets an error
        if job:
            job.kill9()
        ctypes.CDLL(None).umount2(point.encode(), MNT_DETACH)


@contextlib.contextmanager
def scene():
    # The fleet ends after the hang: see the last story.
    with tempfile.TemporaryDirectory() as folder, Fleet(1) as fleet, hanging_program(folder) as (server, job):
        fleet.server, fleet.job = server, job
        began = time.monotonic()
        fleet.agent("node", hz=99, window="1s")
        fleet.start_s = time.monotonic() - began
        fleet.run("lay-static", RUN_S).truth(RUN_S + 30)
        fleet.wait_until_stored()
        fleet.wait_for_names('{process="lay-static"}')
        yield fleet


@story("the agent starts and goes on sampling")
def _(fleet):
    note("ready after %.1f s" % fleet.start_s)
    expect(fleet.start_s < 10, "it took %.1f s to start" % fleet.start_s)
    expect(fleet.job.alive(), "the program on the hung file system has ended: nothing was shown")
    agent = fleet.agents[0]
    expect("does not answer" in agent.log(), "nothing is said about it: %s" % agent.log()[-500:])


@story("other programs have all their names, the one on the hung file system its samples")
def _(fleet):
    top = fleet.top(match='{process="lay-static"}')
    expect(top.find("layout_hot").share > 0.95, "functions: %s" % top.names()[:6])
    processes = fleet.top(group="process")
    expect(processes.find("program").value > 0.5 * processes.find("lay-static").value,
           "processes: %s" % processes.names()[:6])


def main_thread_state(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


@story("it ends in time: nothing waits for the hung file but the kernel, which lets go with the file system")
def _(fleet):
    agent = fleet.agents[0]
    agent.signal(signal.SIGTERM)
    # FUSE does not let even a killed thread go before its server answers or dies: the rest of the process has ended.
    wait_until(lambda: agent.process.poll() is not None or main_thread_state(agent.pid) == "Z", 12, "the end")
    fleet.server.kill9()
    expect(agent.process.wait(10) == 0, "status %s: %s" % (agent.process.returncode, agent.log()[-500:]))


tell(scene)

#!/usr/bin/env python3
# timeout: 120
"""Containers run by hand show up by their id: two of runc with the same static binary, one of containerd, beside the
host's own. The container's files are named although the agent has another mount
namespace."""
import contextlib
import json
import os
import secrets
import shutil
import subprocess
import tempfile

from fleet import Child, Fleet, wait_until, workload
from story import Skip, expect, expect_near, seconds, story, tell

RUN_S = 14


def write_bundle(folder, container_id, binary):
    """A bundle as small as it goes: one static binary, its own pid, mount and cgroup namespaces."""
    root = os.path.join(folder, "rootfs")
    os.makedirs(os.path.join(root, "proc"))
    shutil.copy(binary, os.path.join(root, "app"))
    config = {
        "ociVersion": "1.0.2",
        "process": {"terminal": False, "user": {"uid": 0, "gid": 0}, "args": ["/app", str(RUN_S)], "env": ["PATH=/"],
                    "cwd": "/"},
        "root": {"path": "rootfs"},
        "hostname": "app",
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        # The form containerd gives on a machine without systemd.
        "linux": {"cgroupsPath": "/kubepods/besteffort/pod%s/%s" % ("0b7e5d0c-3c55-4c57-9d3c-5a1f0e7c9a11", container_id),
                  "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")]},
    }
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)


class Container:
    """One runc container, deleted by its id at the end."""

    def __init__(self, fleet, name, binary):
        self.id = secrets.token_hex(32)
        self.bundle = os.path.join(fleet.folder, name)
        self.state = os.path.join(fleet.folder, "runc")
        os.makedirs(self.bundle)
        write_bundle(self.bundle, self.id, binary)
        self.child = Child(name, ["runc", "--root", self.state, "run", "--bundle", self.bundle, self.id], fleet.folder)

    def start(self):
        self.child.start()

    def delete(self):
        subprocess.run(["runc", "--root", self.state, "delete", "--force", self.id], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)


CONTAINERD_CONFIG = """
version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{folder}/sock"
"""


class Containerd:
    """A containerd of the test's own, and one container of it: cgroup /default/ID."""

    def __init__(self, fleet, binary):
        self.id = secrets.token_hex(32)
        self.folder = tempfile.mkdtemp(prefix="cd-")  # short: a socket's path has 107 bytes
        self.socket = os.path.join(self.folder, "sock")
        rootfs = os.path.join(self.folder, "rootfs")
        os.makedirs(os.path.join(rootfs, "proc"))
        shutil.copy(binary, os.path.join(rootfs, "app"))
        config = os.path.join(self.folder, "config.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONTAINERD_CONFIG.format(folder=self.folder))
        self.daemon = Child("containerd", ["containerd", "--config", config], fleet.folder)
        self.child = Child("ctr", self.ctr("run", "--rm", "--rootfs", rootfs, self.id, "/app", RUN_S), fleet.folder)

    def ctr(self, *argv):
        return ["ctr", "--address", self.socket] + list(argv)

    def start(self):
        self.daemon.start()
        ready = self.ctr("version")
        wait_until(lambda: subprocess.run(ready, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                          check=False).returncode == 0, 20, "containerd")
        self.child.start()

    def delete(self):
        subprocess.run(self.ctr("task", "kill", "--signal", "KILL", self.id), stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
        self.child.stop()
        self.daemon.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def scene():
    for tool in ("runc", "containerd"):
        if not shutil.which(tool):
            raise Skip(tool + " is not installed")
    with Fleet(3) as fleet:
        fleet.agent("containers", hz=199, window="2s")
        static = workload("lay-static")
        fleet.boxes = [Container(fleet, "box%d" % i, static) for i in range(2)] + [Containerd(fleet, static)]
        try:
            for box in fleet.boxes:
                box.start()
            host = fleet.run_as("app-on-host", "lay-static", RUN_S)
            fleet.host = host.truth(RUN_S + 30)
            fleet.truth = [box.child.truth(RUN_S + 30) for box in fleet.boxes]
            fleet.wait_until_stored()
            wait_until(lambda: fleet.top(match='{process="app"}').completeness["unnamed"]["samples"] == 0, 20, "names")
            yield fleet
        finally:
            for box in fleet.boxes:
                box.delete()


@story("each container's CPU time is under its own id")
def _(fleet):
    top = fleet.top("container", '{process="app"}')
    for box, truth in zip(fleet.boxes, fleet.truth):
        row = top.find(box.id)
        want = seconds(truth["cpu_ns"]["layout_hot"])
        expect(row.value > 0, "container %s is not among %s" % (box.id, top.names()))
        expect_near("container " + box.id[:12], seconds(row.value), want, 0.05, 4 * want / max(row.count, 1) ** 0.5)


@story("nothing else is under an id, and the host's copy of the program is under none")
def _(fleet):
    with_id = set(fleet.top("container", '{container!="",process=~"app.*"}').names())
    expect(with_id == {box.id for box in fleet.boxes}, "containers found: %s" % with_id)
    top = fleet.top("container", '{process="app-on-host"}')
    expect(top.value > 0 and all(row.key in ("", None) for row in top.rows), "the host's: %s" % top.names())


@story("functions of a container's binary have their names")
def _(fleet):
    top = fleet.top(match='{process="app"}')
    expect(top.find("layout_hot").share > 0.95, "layout_hot has %.3f of %s" %
           (top.find("layout_hot").share, top.names()[:6]))


@story("the same program in and out of containers is one row in the fleet's list")
def _(fleet):
    rows = [row for row in fleet.top(match='{process=~"app.*"}').rows if row.key == "layout_hot"]
    modules = {row.module for row in rows}
    expect(len(rows) <= 2, "layout_hot in %d rows: %s" % (len(rows), modules))


tell(scene)

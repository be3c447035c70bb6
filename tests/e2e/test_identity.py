#!/usr/bin/env python3
# timeout: 200
"""Names stay with what ran, not with what lies at its path or number now: replaced and deleted binaries, libraries closed
and followed by others at the same addresses, process ids used again, threads renamed to any bytes."""
import contextlib
import os
import shutil
import time

from fleet import Fleet, wait_until, workload
from story import Skip, expect, expect_near, seconds, story, tell

RUN_S = 24
COPIES = ("replaced", "deleted", "gone-at-once")
BAD_NAME = r"q\xff\xfe\x22x'\x0ay"  # bytes FF FE, both quotes, a newline


def replace_when_seen(fleet, path, process, other):
    """Waits until the process has samples, then puts another program at its path; other None deletes it."""
    wait_until(lambda: fleet.top("process", '{process="%s"}' % process).rows, 20, "first samples of " + process)
    if other is None:
        os.unlink(path)
    else:
        shutil.copy(workload(other), path + ".new")
        os.rename(path + ".new", path)


@contextlib.contextmanager
def scene():
    with Fleet(3) as fleet:
        fleet.agent("identity", hz=199, window="1s")
        fleet.truth = {}
        children = {}
        for name in COPIES:
            path = os.path.join(fleet.folder, name)
            shutil.copy(workload("lay-pie"), path)
            children[name] = fleet.run(path, RUN_S)
            if name == "gone-at-once":
                wait_until(lambda: "gone-at-once" in os.readlink("/proc/%d/exe" % children[name].pid), 5, "its exec")
                os.unlink(path)
        children["dl"] = fleet.run("dl", RUN_S, workload("liba.so"), workload("libb.so"))
        children["pidagain"] = fleet.run("pidagain", 5, 2, workload("lay-pie"), workload("lay-other"))
        children["rename"] = fleet.run("rename", RUN_S, "before-name", "after-name", BAD_NAME)
        replace_when_seen(fleet, os.path.join(fleet.folder, "replaced"), "replaced", "lay-other")
        replace_when_seen(fleet, os.path.join(fleet.folder, "deleted"), "deleted", None)
        fleet.began = time.time()
        for name, child in children.items():
            status = child.wait(RUN_S + 60)
            fleet.truth[name] = child.truth() if status == 0 else child.log()
        fleet.wait_until_stored()
        fleet.wait_for_names('{process=~"replaced|deleted|dl|lay-.*"}')
        yield fleet


def expect_named(fleet, process):
    top = fleet.top(match='{process="%s"}' % process)
    hot = top.find("layout_hot")
    expect(hot.share > 0.97, "%s: layout_hot has %.3f of %s" % (process, hot.share, top.names()[:8]))
    expect(top.find("wrong_hot").value == 0, "%s: a name of the other file is shown" % process)
    # The three copies are one file by their build id; which of their names it has is no matter.
    modules = {row.module for row in top.rows if row.key == "layout_hot"}
    expect(modules <= set(COPIES) and modules, "%s: the module is called %s" % (process, modules))


@story("a binary that was replaced while it ran keeps its own names")
def _(fleet):
    expect_named(fleet, "replaced")


@story("a binary that was deleted while it ran keeps its names, without a deletion mark")
def _(fleet):
    expect_named(fleet, "deleted")


@story("a binary deleted right after its start is named as well")
def _(fleet):
    expect_named(fleet, "gone-at-once")


@story("two libraries that take turns at the same addresses are told apart")
def _(fleet):
    truth = fleet.truth["dl"]
    expect(truth["reused"] > 3, "the loader did not use the range again: %s" % truth)
    top = fleet.top(match='{process="dl"}', cumulative=True)
    for name, cpu_ns in truth["cpu_ns"].items():
        row = top.find(name)
        expect_near(name, seconds(row.value), seconds(cpu_ns), 0.03, 3 * seconds(cpu_ns) / max(row.count, 1) ** 0.5)
    libraries = {row.module for row in top.rows if row.key in truth["cpu_ns"]}
    expect(libraries == {"liba.so", "libb.so"}, "modules: %s" % libraries)


@story("a process id used again belongs to the program that has it")
def _(fleet):
    if not isinstance(fleet.truth["pidagain"], dict):
        raise Skip("process ids cannot be chosen here: " + fleet.truth["pidagain"].strip())
    for process, right, wrong in (("lay-pie", "layout_hot", "wrong_hot"), ("lay-other", "wrong_hot", "layout_hot")):
        top = fleet.top(match='{process="%s"}' % process)
        expect(top.find(right).share > 0.97, "%s: %s has %.3f of %s" % (process, right, top.find(right).share,
                                                                      top.names()[:6]))
        expect(top.find(wrong).value == 0, "%s shows %s" % (process, wrong))


@story("a process renamed half-way shows both names with their time")
def _(fleet):
    truth = fleet.truth["rename"]
    for process, thread, cpu_ns in (("before-name", "before-name", truth["first_ns"]),
                                    ("after-name", "after-name", truth["second_ns"])):
        top = fleet.top("process", '{process="%s",thread="%s"}' % (process, thread))
        expect_near(thread, seconds(top.value), seconds(cpu_ns), 0.05, 4 * seconds(cpu_ns) / max(top.count, 1) ** 0.5)


@story("a thread name of any bytes costs nothing but its looks")
def _(fleet):
    top = fleet.top("thread", '{process=~"before-name|after-name"}')
    odd = [row for row in top.rows if row.key.startswith("q")]
    expect(odd, "no thread whose name begins with q among %s" % top.names())
    expect(odd[0].key == "q\\xff\\xfe\"x'\\x0ay", "it is shown as %r" % odd[0].key)
    truth = fleet.truth["rename"]["thread_ns"][0]
    expect_near(repr(odd[0].key), seconds(sum(r.value for r in odd)), seconds(truth), 0.05,
                4 * seconds(truth) / max(odd[0].count, 1) ** 0.5)
    table, _ = fleet.cli("top", "--group", "thread", "--since", "15m", "--limit", "50")
    lines = [line for line in table.splitlines() if "xff" in line and "xfe" in line]
    expect(len(lines) == len(odd), "the table shows the name in %d lines" % len(lines))


tell(scene)

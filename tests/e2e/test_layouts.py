#!/usr/bin/env python3
# timeout: 150
"""One program in every layout a linker makes, all at once: the same names from each."""
import contextlib
import os
import re

from fleet import Fleet, workload
from story import Skip, expect, story, tell

RUN_S = 16
NAMED = ("lay-pie", "lay-nopie", "lay-static", "lay-static-pie", "lay-lld", "lay-twoseg", "lay-musl")
NAMELESS = ("lay-strip", "hidden")
CHAINS = ("exec-by-shell", "exec-by-env")


@contextlib.contextmanager
def scene():
    with Fleet(3) as fleet:
        fleet.agent("layouts", hz=199, window="2s")
        children = [fleet.run(name, RUN_S) for name in NAMED + NAMELESS if os.path.exists(workload(name))]
        children.append(fleet.run_as("second-pie", "lay-pie", RUN_S))
        # The chain's own programs have names of their own, so that they can be told from the others.
        for name in CHAINS + ("by-loader",):
            os.symlink(workload("lay-pie"), os.path.join(fleet.folder, name))
        path = os.path.join(fleet.folder, "%s")
        children.append(fleet.run("/bin/sh", "-c", 'exec "$0" "$1"', path % CHAINS[0], RUN_S))
        children.append(fleet.run("/usr/bin/env", "SHOWN=1", path % CHAINS[1], RUN_S))
        loaders = [p for p in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1") if os.path.exists(p)]
        fleet.loader = os.path.basename(loaders[0])[:15] if loaders else None
        if loaders:
            children.append(fleet.run(loaders[0], path % "by-loader", RUN_S))
        for child in children:
            child.truth(RUN_S + 60)
        fleet.wait_until_stored()
        fleet.wait_for_names('{process=~"lay-.*|second-pie|exec-by.*"}')
        yield fleet


def expect_hot(fleet, process):
    self_time = fleet.top(match='{process="%s"}' % process)
    expect(self_time.count > 50, "%s: only %d samples" % (process, self_time.count))
    hot = self_time.find("layout_hot")
    expect(hot.share > 0.95, "%s: layout_hot has %.3f of %s" % (process, hot.share, self_time.names()[:8]))
    through = fleet.top(match='{process="%s"}' % process, cumulative=True)
    for caller in ("layout_middle", "main"):
        expect(through.find(caller).share > 0.95, "%s: %s has %.3f of %s" %
               (process, caller, through.find(caller).share, through.names()[:8]))


def tell_layout(process):
    @story("%s: the hot function and its callers have their names" % process)
    def _(fleet):
        if not os.path.exists(workload(process)) and process in NAMED:
            raise Skip("%s is not built: its compiler is missing" % process)
        expect_hot(fleet, process)


for layout in NAMED + ("second-pie",) + CHAINS:
    tell_layout(layout)


@story("a program started by the dynamic loader itself keeps its names")
def _(fleet):
    if not fleet.loader:
        raise Skip("no dynamic loader of a known name")
    expect_hot(fleet, fleet.loader)


@story("nothing of a program is left under the shell or env that started it")
def _(fleet):
    for process in ("sh", "env"):
        top = fleet.top(match='{process="%s"}' % process)
        expect(top.find("layout_hot").value == 0, "layout_hot is shown under %s" % process)


def tell_nameless(process, never):
    @story("%s: nameless code is grouped under its module and offset, nothing is invented" % process)
    def _(fleet):
        top = fleet.top(match='{process="%s"}' % process)
        hot = top.rows[0]
        expect(hot.share > 0.9, "%s: the hottest row has %.3f of %s" % (process, hot.share, top.names()[:8]))
        expect(re.fullmatch(r"%s\+0x[0-9a-f]+" % re.escape(process), hot.key), "it is called %s" % hot.key)
        for name in never:
            expect(top.find(name).value == 0, "%s is credited with hidden code" % name)


tell_nameless("lay-strip", ())
tell_nameless("hidden", ("export_low", "export_high"))

tell(scene)

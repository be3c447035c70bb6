#!/usr/bin/env python3
# timeout: 120
"""Whole stacks: kernel frames on top of the user's, once; stacks deeper than the limit keep their leaf, carry
a visible mark and lose nothing of the total; the profile opens in Go's own tool without a word of complaint."""
import contextlib
import os
import shutil
import subprocess

from fleet import Fleet, FleetError, program
from story import Skip, expect, expect_near, note, seconds, story, tell

RUN_S = 14
DEPTHS = (20, 120, 300)
LIMIT = 127


@contextlib.contextmanager
def scene():
    with Fleet(3) as fleet:
        fleet.agent("stacks", hz=199, window="2s")
        children = {"readzero": fleet.run("readzero", RUN_S)}
        for depth in DEPTHS:
            children[depth] = fleet.run_as("deep%d" % depth, "deep", depth, RUN_S)
        fleet.truth = {name: child.truth(RUN_S + 40) for name, child in children.items()}
        fleet.wait_until_stored()
        fleet.wait_for_names('{process=~"deep.*|readzero"}')
        yield fleet


@story("a read-heavy job's kernel frames sit on its user stack, once")
def _(fleet):
    stacks = fleet.stacks('{process="readzero"}')
    total = sum(value for _, value in stacks)
    joined = 0
    for frames, value in stacks:
        if "read_loop" in frames and any("read_zero" in f or "vfs_read" in f for f in frames):
            user = frames.index("read_loop")
            kernel = next(i for i, f in enumerate(frames) if "read_zero" in f or "vfs_read" in f)
            expect(user < kernel, "the kernel frame is below the user frame: %s" % frames)
            joined += value
        for frame in ("vfs_read", "ksys_read", "do_syscall_64", "read_loop"):
            expect(frames.count(frame) <= 1, "%s twice in %s" % (frame, frames))
    note("%.1f %% of the time is in joined stacks" % (100 * joined / total))
    expect(joined / total > 0.9, "only %.2f of the time has kernel frames on user frames, e.g. %s" %
           (joined / total, stacks[0]))


@story("kernel and user time of that job add up to its CPU time")
def _(fleet):
    truth = fleet.truth["readzero"]
    top = fleet.top("process", '{process="readzero"}')
    want = seconds(truth["user_ns"] + truth["system_ns"])
    expect_near("readzero", seconds(top.value), want, 0.03, 4 * want / max(top.count, 1) ** 0.5)


@story("no frame is an address out of nowhere")
def _(fleet):
    for frames, _ in fleet.stacks('{process=~"deep.*|readzero"}'):
        bad = [f for f in frames if f in ("", "0x0", "[unknown]+0x0")]
        expect(not bad, "%s in %s" % (bad, frames))


def tell_depth(depth):
    @story("recursion %d deep: leaf, total and %s are right" % (depth, "entry" if depth < LIMIT - 6 else "mark"))
    def _(fleet):
        match = '{process="deep%d"}' % depth
        top = fleet.top(match=match, cumulative=True)
        want = seconds(fleet.truth[depth]["cpu_ns"]["deep_leaf"])
        expect_near("deep_leaf", seconds(top.find("deep_leaf").value), want, 0.03,
                    4 * want / max(top.count, 1) ** 0.5)
        stacks = [(f, v) for f, v in fleet.stacks(match) if "deep_leaf" in f]
        total = sum(v for _, v in stacks)
        if depth < LIMIT - 6:
            whole = sum(v for f, v in stacks if "main" in f and f.count("deep_step") == depth)
            expect(whole / total > 0.99, "only %.3f of the time reaches main" % (whole / total))
            expect(fleet.top(match=match).completeness["truncated"]["share"] < 0.01, "whole stacks marked as cut")
        else:
            cut = sum(v for f, v in stacks if "[truncated]" in f[:2])
            expect(cut / total > 0.99, "only %.3f of the time carries the mark at its root, e.g. %s" %
                   (cut / total, stacks[0][0][:3]))
            expect(fleet.top(match=match).completeness["truncated"]["share"] > 0.95, "the answer does not say so")
        expect(top.find("deep_step").share <= 1.0, "recursion counted more than once: %s" % top.find("deep_step").raw)


for some_depth in DEPTHS:
    tell_depth(some_depth)


@story("go tool pprof opens the profile without a warning and agrees on the costliest function")
def _(fleet):
    go = shutil.which("go") or next((p for p in ("/usr/local/go/bin/go", "/usr/lib/go/bin/go") if os.path.exists(p)), None)
    if not go:
        raise Skip("no go on this machine")
    path = os.path.join(fleet.folder, "cpu.pb.gz")
    with open(path, "wb") as file:
        subprocess.run([program("fleetprof"), "--server", fleet.shards[0].url, "pprof", "--since", "15m", "-l",
                        "process=readzero"], stdout=file, check=True)
    done = subprocess.run([go, "tool", "pprof", "-top", "-nodecount=8", "-unit=ns", path], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", check=False, timeout=120,
                          env=dict(os.environ, PPROF_TMPDIR=fleet.folder, PPROF_BINARY_PATH=fleet.folder))
    note(done.stdout + done.stderr)
    if done.returncode != 0:
        raise FleetError("pprof ended with status %d: %s" % (done.returncode, done.stderr))
    told = [line for line in done.stderr.splitlines() if "warn" in line.lower() or "local symbolization" in line.lower() or
            "error" in line.lower()]
    expect(not told, "pprof says: %s" % told)
    lines = done.stdout.splitlines()
    first = lines[next(i for i, line in enumerate(lines) if "flat%" in line) + 1]
    hottest = fleet.top(match='{process="readzero"}').rows[0]
    expect(hottest.key in first, "pprof's first row is %r, ours is %s" % (first, hottest.key))


tell(scene)

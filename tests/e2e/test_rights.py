#!/usr/bin/env python3
# timeout: 120
"""What the agent needs and says: it runs with the six capabilities it names and no other; without one it needs it ends
with a clear message and leaves nothing attached; without CAP_SYSLOG it goes on and marks kernel frames."""
import contextlib
import re
import shutil
import signal
import subprocess

from fleet import Fleet, free_port, program, wait_until
from story import Skip, expect, note, story, tell

NAMED = "bpf,perfmon,sys_ptrace,dac_read_search,syslog,checkpoint_restore"
RUN_S = 6


def with_capabilities(names):
    wanted = ",".join("+" + name for name in names.split(",") if name)
    return ["setpriv", "--bounding-set", "-all" + ("," + wanted if wanted else ""), "--inh-caps", "-all"]


def without(name):
    return ",".join(n for n in NAMED.split(",") if n != name)


def loaded_programs():
    done = subprocess.run(["bpftool", "prog", "show"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                          encoding="utf-8")
    return {line.split(":")[0] for line in done.stdout.splitlines() if ": perf_event" in line}


@contextlib.contextmanager
def scene():
    if not shutil.which("setpriv"):
        raise Skip("setpriv is missing")
    with Fleet(1) as fleet:
        fleet.agent("least", hz=99, window="1s", before=with_capabilities(NAMED))
        fleet.agent("no-syslog", hz=99, window="1s", before=with_capabilities(without("syslog")))
        fleet.agent("absent-cpus", hz=99, window="1s", extra=("--cpus", "0-7"))
        children = [fleet.run("readzero", RUN_S), fleet.run("lay-pie", RUN_S)]
        for child in children:
            child.truth(RUN_S + 30)
        fleet.wait_until_stored()
        fleet.wait_for_names('{process="lay-pie"}')
        yield fleet


@story("the capabilities it names are enough for everything")
def _(fleet):
    top = fleet.top(match='{node="least",process="lay-pie"}')
    expect(top.find("layout_hot").share > 0.95, "functions: %s" % top.names()[:6])
    top = fleet.top(match='{node="least",process="readzero"}', cumulative=True)
    expect(top.find("vfs_read").share > 0.5, "kernel functions: %s" % top.names()[:12])


@story("without CAP_SYSLOG it goes on, and kernel frames are one marked unknown, not the first symbol")
def _(fleet):
    top = fleet.top(match='{node="no-syslog",process="lay-pie"}')
    expect(top.find("layout_hot").share > 0.95, "functions: %s" % top.names()[:6])
    top = fleet.top(match='{node="no-syslog",process="readzero"}', cumulative=True)
    expect(top.find("vfs_read").value == 0, "kernel functions are named after all")
    kernel = [row for row in top.rows if "kernel" in (row.key + str(row.module))]
    expect(kernel and kernel[0].share > 0.5, "no row for the kernel: %s" % top.names()[:8])
    agent = next(a for a in fleet.agents if a.node == "no-syslog")
    expect(agent.metrics()["fleetprof_agent_kernel_symbols_hidden"] == 1, "the metric does not say so")
    lines = [line for line in agent.log().splitlines() if "kernel" in line.lower()]
    expect(1 <= len(lines) <= 2, "log lines about it: %s" % lines)


@story("CPUs that are not there are passed over")
def _(fleet):
    top = fleet.top(match='{node="absent-cpus",process="lay-pie"}')
    expect(top.find("layout_hot").share > 0.95, "functions: %s" % top.names()[:6])


def start_without(fleet, capabilities):
    done = subprocess.run(with_capabilities(capabilities) +
                          [program("node-agent"), "--node", "x", "--shards", fleet.links[0], "--http",
                           "127.0.0.1:%d" % free_port()],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=20, check=False)
    note(done.stdout.strip()[-300:])
    return done


@story("without a capability it cannot do without, it names it, ends with an error and leaves nothing attached")
def _(fleet):
    before = loaded_programs()
    for name in ("bpf", "perfmon"):
        done = start_without(fleet, without(name))
        expect(done.returncode not in (0, None) and done.returncode > 0, "status %s" % done.returncode)
        expect("CAP_" + name.upper() in done.stdout, "CAP_%s is not named: %s" % (name.upper(), done.stdout))
    done = start_without(fleet, "")
    expect(done.returncode > 0 and "CAP_" in done.stdout, "no capability at all: %s" % done.stdout)
    expect(loaded_programs() <= before, "programs stay loaded: %s" % (loaded_programs() - before))


@story("--help names exactly these capabilities")
def _(fleet):
    done = subprocess.run([program("node-agent"), "--help"], stdout=subprocess.PIPE, encoding="utf-8", check=True)
    named = set(re.findall(r"CAP_[A-Z_]+", done.stdout))
    expect(named == {"CAP_" + name.upper() for name in NAMED.split(",")}, "named: %s" % sorted(named))


def first_lines(before, port):
    """What the agent logs until it samples, or until it ends."""
    child = subprocess.Popen(before + [program("node-agent"), "--node", "x", "--shards", "tcp://127.0.0.1:%d" % free_port(),
                                       "--http", "127.0.0.1:%d" % port],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    lines = []
    for line in child.stdout:
        lines.append(line.strip())
        if "sampling" in line:
            child.send_signal(signal.SIGINT)
            child.send_signal(signal.SIGTERM)  # the second one ends it at once
            break
    rest = child.stdout.read()
    note("\n".join(lines) + rest)
    return child.wait(20), "\n".join(lines)


@story("each right that only costs something is named once, and sampling goes on")
def _(fleet):
    status, text = first_lines(with_capabilities(NAMED), free_port())
    expect("missing" not in text and "namespace" not in text, "with all of them: %s" % text)
    for name in ("sys_ptrace", "dac_read_search", "syslog", "checkpoint_restore"):
        status, text = first_lines(with_capabilities(without(name)), free_port())
        expect(text.count("CAP_%s is missing" % name.upper()) == 1, "without %s: %s" % (name, text))
        expect("sampling" in text and text.count("missing") == 1, "without %s: %s" % (name, text))


@story("outside the node's pid namespace it refuses, in a cgroup namespace of its own it says so")
def _(fleet):
    for unshare in (["unshare", "--pid", "--fork", "--mount-proc"], ["unshare", "--pid", "--fork"]):
        status, text = first_lines(unshare, free_port())
        expect(status == 1 and "pid namespace" in text and "sampling" not in text, "%s: %s" % (unshare, text))
    status, text = first_lines(["unshare", "--cgroup"], free_port())
    expect("cgroup namespace" in text and "sampling" in text, "unshare --cgroup: %s" % text)


@story("with kernel.kptr_restrict=2 it starts, marks kernel frames and says so once")
def _(fleet):
    path = "/proc/sys/kernel/kptr_restrict"
    with open(path, encoding="ascii") as file:
        before = file.read()
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write("2")
        agent = fleet.agent("restricted", hz=99, window="1s")
        job = fleet.run("readzero", RUN_S)
        job.truth(RUN_S + 30)
        wait_until(lambda: agent.metrics()["fleetprof_agent_kernel_symbols_hidden"] == 1, 20, "the metric")
        wait_until(lambda: "kernel hides its addresses" in agent.log(), 20, "the log line")
        expect(agent.log().count("kernel hides its addresses") == 1, "said more than once")
    finally:
        with open(path, "w", encoding="ascii") as file:
            file.write(before)


tell(scene)

#!/usr/bin/env python3
# timeout: 200
"""CPU-seconds are CPU-seconds whatever the rate: three agents at 19, 99 and 499 Hz watch the same machine, first idle,
then one core saturated for 30 s by functions at 50/30/15/5."""
import contextlib
import os
import signal
import time

from fleet import Fleet, wait_until
from story import expect, expect_near, expect_share, note, seconds, story, tell

RATES = (19, 99, 499)
BUSY_S = 30
BUCKET_S = 10
IDLE_S = BUCKET_S


def machine_busy_s():
    """CPU time that somebody used, by the kernel's own books: all but idle, iowait and steal; guests are in user."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq = map(int, file.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def node_total(fleet, hz, begin, end):
    return seconds(fleet.top("process", '{node="hz%d"}' % hz, **{"from": int(begin * 1000), "to": int(end * 1000)}).value)


def cpu_s(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def write_hz(path, hz):
    with open(path, "w", encoding="ascii") as file:
        file.write("hz = %d\n" % hz)


@contextlib.contextmanager
def scene():
    # The spinner has the last CPU for itself, everything else the others: then what is left to see is the sampling.
    cpus = sorted(os.sched_getaffinity(0))
    others = set(cpus[:-1]) or set(cpus)
    os.sched_setaffinity(0, others)
    with Fleet(3) as fleet:
        for hz in RATES:
            fleet.agent("hz%d" % hz, hz=hz, window="1s")
        settings = os.path.join(fleet.folder, "node-agent.conf")
        write_hz(settings, 19)
        live = fleet.agent("live", hz=None, window="1s", extra=("--config", settings))
        fleet.wait_until_stored()
        # The idle stretch lies on the shard's time buckets, the grain of every answer.
        begin = (int(time.time() + 1) // BUCKET_S + 1) * BUCKET_S
        time.sleep(begin - time.time())
        idle_from = machine_busy_s()
        time.sleep(begin + IDLE_S - time.time())
        idle_s = machine_busy_s() - idle_from
        spin = fleet.run_as("spin-rates", "spin", BUSY_S, affinity={cpus[-1]})
        wait_until(lambda: cpu_s(spin.pid) > BUSY_S / 2, BUSY_S, "half of the work")
        write_hz(settings, 499)
        live.signal(signal.SIGHUP)
        truth = spin.truth(BUSY_S + 30)
        fleet.live_hz = live.metrics()["fleetprof_agent_hz"]
        fleet.wait_until_stored()
        fleet.wait_for_names('{process="spin-rates"}')
        fleet.idle = {hz: node_total(fleet, hz, begin, begin + IDLE_S) for hz in RATES}
        fleet.idle_s, fleet.truth = idle_s, truth
        yield fleet


def spin_of(fleet, hz):
    return fleet.top(match='{process="spin-rates",node="hz%d"}' % hz)


def tell_rate(hz):
    @story("a core saturated for 30 s gives its CPU-seconds within 3 %% at %d Hz" % hz)
    def _(fleet):
        expect_near("%d Hz" % hz, seconds(spin_of(fleet, hz).value), seconds(fleet.truth["process_cpu_ns"]), 0.03)

    @story("functions at 50/30/15/5 have their shares at %d Hz" % hz)
    def _(fleet):
        top = spin_of(fleet, hz)
        total = fleet.truth["process_cpu_ns"]
        for name, cpu_ns in fleet.truth["cpu_ns"].items():
            expect_share("%s at %d Hz" % (name, hz), top.find(name), cpu_ns / total)


for rate in RATES:
    tell_rate(rate)


@story("the printed interval holds the truth in nearly all of the twelve shares")
def _(fleet):
    inside = 0
    for hz in RATES:
        top = spin_of(fleet, hz)
        for name, cpu_ns in fleet.truth["cpu_ns"].items():
            row = top.find(name)
            inside += row.share_low <= cpu_ns / fleet.truth["process_cpu_ns"] <= row.share_high
    note("%d of 12 shares within their 95 %% interval" % inside)
    expect(inside >= 8, "only %d of 12 truths within the 95 %% interval" % inside)


@story("a rate changed half-way, without a restart, changes no CPU-second")
def _(fleet):
    expect(fleet.live_hz == 499, "the agent still samples at %s Hz" % fleet.live_hz)
    expect(fleet.agents_state()["live"]["hz"] == 499, "the shard shows the old rate")
    row = fleet.top("process", '{process="spin-rates",node="live"}').rows[0]
    expect_near("19, then 499 Hz", seconds(row.value), seconds(fleet.truth["process_cpu_ns"]), 0.03)
    due = 499 * (seconds(fleet.truth["process_cpu_ns"]) - BUSY_S / 2)
    expect(row.count > 0.8 * due, "%d samples, the second half alone has %d" % (row.count, due))


@story("a higher rate gives a narrower interval, not another value")
def _(fleet):
    widths = [spin_of(fleet, hz).find("spin_50") for hz in RATES]
    widths = [row.share_high - row.share_low for row in widths]
    expect(widths[0] > widths[1] > widths[2] > 0, "widths of the interval by rate: %s" % widths)


@story("an idle machine gives what the kernel counts as busy, and no more")
def _(fleet):
    for hz in RATES:
        # Few samples: three standard errors of as many as the busy time holds.
        room = 3 * (max(fleet.idle_s, 0.05) / hz) ** 0.5 + 0.1
        expect_near("idle stretch at %d Hz" % hz, fleet.idle[hz], fleet.idle_s, 0.05, room)


@story("no row is the idle task's")
def _(fleet):
    names = [r.key for r in fleet.top("process").rows]
    expect(not any(n.startswith("swapper") for n in names), "an idle task among %s" % names)


tell(scene)

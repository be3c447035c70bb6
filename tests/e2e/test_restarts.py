#!/usr/bin/env python3
# timeout: 360
"""kill -9 of shards and of the agent, twenty times each in the middle of the stream: nothing is counted twice, what a shard
had in memory only is a gap that answers admit, and everything goes on by itself."""
import contextlib
import os
import random
import time

from fleet import Fleet, FleetError, wait_until
from story import expect, note, seconds, story, tell

SHARD_KILLS, AGENT_KILLS = 20, 20
BUCKET_MS = 10000  # the grain of a shard's answers
NODE = '{node="restarts",process="spin-kills"}'


def spin_s(fleet, begin_ms, end_ms):
    return seconds(fleet.top("process", NODE, **{"from": begin_ms, "to": end_ms}).value)


def stored_now(fleet):
    return fleet.top("process", NODE).count


def kill_and_restart(fleet, child, chance):
    """Kills somewhere inside a window; the time until samples arrive again."""
    time.sleep(chance.uniform(0.2, 1.2))
    begun = time.monotonic()
    child.kill9()
    child.start()
    child.wait_ready()
    before = stored_now(fleet)
    wait_until(lambda: stored_now(fleet) > before, 20, "the stream after the end of " + child.name)
    fleet.victims.append(child.name)
    fleet.recovery_s.append(time.monotonic() - begun)


def home_of(fleet):
    """The shard that has the node, and another one."""
    link = fleet.agents_state()["restarts"]["shard"]
    return next(s for s in fleet.shards if s.link == link), next(s for s in fleet.shards if s.link != link)


def ledger(agent):
    metrics = agent.metrics()
    return {name: int(metrics["fleetprof_agent_ledger_%s" % name]) for name in
            ("put_samples_total", "acked_samples_total", "lost_samples_total", "waiting_samples")}


def balanced(fleet, agent):
    """Three readings that follow each other while windows go on arriving: the books balance when they do at one moment.
    Keeps the last reading for the story to tell."""
    before = ledger(agent)
    held = fleet.agents_state()["restarts"]["samples"]
    gap = fleet.top("process", NODE).completeness
    fleet.ledger, fleet.held, fleet.gap = before, held, gap
    fleet.missing = gap["lost"]["by_cause"].get("shard_restart", 0)
    return before["acked_samples_total"] == held + fleet.missing


@contextlib.contextmanager
def scene():
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, set(cpus[:-1]) or set(cpus))
    chance = random.Random(3)  # the moments are any; the same ones in each run
    with Fleet(3) as fleet:
        fleet.recovery_s, fleet.victims = [], []
        agent = fleet.agent("restarts", window="1s", hz=199)
        fleet.wait_until_stored()
        home, other = home_of(fleet)
        fleet.begin_ms = int(time.time() * 1000)
        spin = fleet.run_as("spin-kills", "spin", 600, affinity={cpus[-1]})
        wait_until(lambda: stored_now(fleet) > 0, 20, "the stream")
        for number in range(SHARD_KILLS):
            kill_and_restart(fleet, other if number % 3 == 2 else home, chance)
        fleet.wait_until_stored()
        with contextlib.suppress(FleetError):  # the stories tell it
            wait_until(lambda: balanced(fleet, agent), 15, "balanced books", every=0.03)
        fleet.agents_begin_ms = int(time.time() * 1000)
        for number in range(AGENT_KILLS):
            kill_and_restart(fleet, agent, chance)
        fleet.wait_until_stored()
        fleet.end_ms = int(time.time() * 1000)
        spin.stop()
        fleet.truth = spin.truth()
        fleet.wait_until_stored()
        yield fleet


@story("after each of forty kills the stream goes on by itself")
def _(fleet):
    note("killed: %s" % " ".join(fleet.victims))
    count = len(fleet.recovery_s)
    note("back after %.1f s at most, %.1f s on average" % (max(fleet.recovery_s), sum(fleet.recovery_s) / count))
    expect(count == SHARD_KILLS + AGENT_KILLS, "not all were killed")


@story("twenty dead shards cost the agent nothing: all it put is acknowledged or waiting")
def _(fleet):
    note("%s" % fleet.ledger)
    expect(fleet.ledger["lost_samples_total"] == 0, "lost at the agent: %s" % fleet.ledger)
    expect(fleet.ledger["put_samples_total"] == fleet.ledger["acked_samples_total"] + fleet.ledger["waiting_samples"],
           "the books do not balance: %s" % fleet.ledger)


@story("what dead shards took with them is a gap that the answer admits, to the sample")
def _(fleet):
    note("acknowledged %d = held %d + gone with a shard %d" % (fleet.ledger["acked_samples_total"], fleet.held, fleet.missing))
    expect(fleet.gap["partial"] and fleet.missing > 0, "nothing says that data is missing: %s" % fleet.gap)
    expect(fleet.ledger["acked_samples_total"] == fleet.held + fleet.missing, "the books do not balance")


@story("no stretch of time holds more than one thread can use")
def _(fleet):
    for begin_ms in range(fleet.begin_ms // BUCKET_MS * BUCKET_MS, fleet.end_ms, BUCKET_MS):
        value = spin_s(fleet, begin_ms, begin_ms + BUCKET_MS)
        note("%d: %.3f CPU-s of 10" % (begin_ms, value))
        expect(value <= 10.3, "the ten seconds at %d hold %.3f CPU-s of one thread" % (begin_ms, value))


@story("in sum there is no more than the program used, and twenty dead agents cost a window or two each")
def _(fleet):
    stored = spin_s(fleet, fleet.begin_ms, fleet.end_ms + BUCKET_MS)
    truth = seconds(fleet.truth["process_cpu_ns"])
    since = (fleet.end_ms - fleet.agents_begin_ms) / 1e3
    note("stored %.2f of %.2f CPU-s; agents died during the last %.2f s" % (stored, truth, since))
    expect(stored <= truth * 1.01, "stored %.3f, used %.3f" % (stored, truth))
    expect(stored >= since * 0.8 - AGENT_KILLS * 2.0, "stored only %.3f" % stored)


@story("names come back although their packs died with a shard")
def _(fleet):
    fleet.wait_for_names(NODE)
    complete = fleet.top(match=NODE).completeness["unnamed"]
    rows = [(r.key, r.module, r.count) for r in fleet.top(match=NODE).rows if "+0x" in r.key]
    expect(complete["share"] <= 0.01, "unnamed: %s: %s" % (complete, rows[:20]))


@story("no eBPF program or map is left behind by killed agents")
def _(fleet):
    # The one that runs now holds a handful; nineteen dead ones would hold nineteen times as many.
    programs = os.popen("bpftool prog show 2>/dev/null | grep -c 'perf_event.*'").read().strip()
    expect(int(programs or 0) <= 3, "%s perf_event programs are loaded" % programs)


tell(scene)

#!/usr/bin/env python3
# timeout: 150
"""The books balance: samples taken = stored + lost by named cause, exactly, at the agent and at the shard, also with the
kernel buffer shrunk until it overflows and with 500 processes of 30 ms."""
import contextlib
import os

from fleet import Fleet
from story import expect, expect_near, note, seconds, story, tell

JOBS, JOB_MS = 500, 30
LOST_IN_KERNEL = ("lost_ring_full", "lost_nested")


@contextlib.contextmanager
def scene():
    with Fleet(3) as fleet:
        fleet.agent("roomy", hz=199, window="2s")
        fleet.agent("tiny", hz=997, window="2s", extra=("--ring-bytes", "4096"))
        spin = fleet.run("spin", 6, 2)
        spin.truth(60)
        jobs = fleet.run("short", JOBS, JOB_MS, 2)
        fleet.truth = jobs.truth(90)
        fleet.wait_until_stored()
        fleet.wait_for_names('{node="roomy",process="shortjob"}')
        fleet.live = {agent.node: agent.metrics() for agent in fleet.agents}
        for agent in fleet.agents:  # a stop sends what is left: then nothing moves any more
            expect(agent.stop() == 0, "%s did not stop well: %s" % (agent.name, agent.log()[-500:]))
        fleet.final = fleet.agents_state()
        yield fleet


def state_of(metrics, state):
    return int(metrics['fleetprof_agent_samples_total{state="%s"}' % state])


@story("in the kernel: taken = handed to the agent + lost by cause")
def _(fleet):
    for node, metrics in fleet.live.items():
        taken, submitted = state_of(metrics, "taken"), state_of(metrics, "submitted")
        lost = {cause: state_of(metrics, cause) for cause in LOST_IN_KERNEL}
        note("%s: taken %d = submitted %d + %s" % (node, taken, submitted, lost))
        # Read while both CPUs go on counting: one sample a CPU may be under way.
        expect(abs(taken - submitted - sum(lost.values())) <= os.cpu_count(), "%s: the books do not balance" % node)


@story("at the shard: taken = stored + lost by cause, to the sample")
def _(fleet):
    for node, agent in fleet.final.items():
        note("%s: taken %d = stored %d + lost %s" % (node, agent["taken"], agent["samples"], agent["lost"]))
        expect(agent["taken"] > 1000, "%s took only %d samples" % (node, agent["taken"]))
        expect(agent["taken"] == agent["samples"] + sum(agent["lost"].values()), "%s: the books do not balance" % node)


@story("agent and shard agree on what was taken")
def _(fleet):
    for node, metrics in fleet.live.items():
        expect(fleet.final[node]["taken"] >= int(metrics["fleetprof_agent_ledger_acked_samples_total"]),
               "%s: the shard knows of fewer samples than it acknowledged" % node)


@story("what is stored is what a query adds up")
def _(fleet):
    for node, agent in fleet.final.items():
        count = fleet.top("node", '{node="%s"}' % node).count
        expect(count == agent["samples"], "%s: stored %d, a query finds %d" % (node, agent["samples"], count))


@story("a ring too small loses samples under its own name, and answers say so")
def _(fleet):
    lost = fleet.final["tiny"]["lost"]
    expect(lost.get("ring_full", 0) > 0, "nothing was lost with a ring of one page: %s" % lost)
    complete = fleet.top(match='{node="tiny"}').completeness["lost"]
    expect(complete["by_cause"].get("ring_full", 0) > 0 and complete["share"] > 0, "the answer says %s" % complete)


@story("a ring of the usual size loses nothing")
def _(fleet):
    expect(sum(fleet.final["roomy"]["lost"].values()) == 0, "lost: %s" % fleet.final["roomy"]["lost"])


@story("500 processes of 30 ms are counted in full")
def _(fleet):
    top = fleet.top("process", '{node="roomy",process=~"shortjob|short"}')
    truth = seconds(fleet.truth["all_cpu_ns"])
    expect_near("CPU-seconds of all jobs", seconds(top.value), truth, 0.03, 4 * truth / max(top.count, 1) ** 0.5)


@story("and named, although each was gone when its names were looked up")
def _(fleet):
    top = fleet.top(match='{node="roomy",process="shortjob"}', cumulative=True)
    truth = seconds(fleet.truth["cpu_ns"]["short_burn"])
    burn = top.find("short_burn")
    expect_near("CPU-seconds in short_burn", seconds(burn.value), truth, 0.03, 4 * truth / max(burn.count, 1) ** 0.5)


tell(scene)

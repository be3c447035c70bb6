#!/usr/bin/env python3
# timeout: 200
"""Work that comes with the sampling clock's own period is seen as what it costs: one millisecond bursts at 97 to 101 Hz
against three agents at 99 Hz. Without jitter a 99 Hz agent sees none of a 99 Hz job, or nine times it."""
import contextlib

from fleet import Fleet
from story import expect_near, seconds, story, tell

RATES = (97, 98, 99, 100, 101)
AGENTS = 3
RUN_S = 60


@contextlib.contextmanager
def scene():
    with Fleet(1) as fleet:
        for number in range(AGENTS):
            fleet.agent("node%d" % number, hz=99, window="5s")
        fleet.wait_until_stored()
        bursts = {hz: fleet.run_as("burst%d" % hz, "burst", hz, RUN_S) for hz in RATES}
        fleet.truth = {hz: seconds(c.truth(RUN_S + 30)["cpu_ns"]["burst_work"]) for hz, c in bursts.items()}
        fleet.wait_until_stored()
        yield fleet


def seen_s(fleet, hz, node):
    return seconds(fleet.top("process", '{process="burst%d",node="node%d"}' % (hz, node)).value)


def tell_rate(hz):
    @story("bursts at %d Hz cost what they cost, within 15 %%" % hz)
    def _(fleet):
        seen = [seen_s(fleet, hz, node) for node in range(AGENTS)]
        # About 590 samples each: counting noise alone is 4 % an agent and 2.4 % for the three together.
        expect_near("%d Hz, three agents" % hz, sum(seen) / AGENTS, fleet.truth[hz], 0.15)
        for node, value in enumerate(seen):
            expect_near("%d Hz, node%d" % (hz, node), value, fleet.truth[hz], 0.25)


for rate in RATES:
    tell_rate(rate)

tell(scene)

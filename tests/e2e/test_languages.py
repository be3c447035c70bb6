#!/usr/bin/env python3
# timeout: 150
"""What compiled programs are called: Go with and without symbols and as PIE, C++ templates
and Rust generics demangled, and where the time of the Go program goes."""
import contextlib
import os

from fleet import Fleet, workload
from story import Skip, expect, expect_near, seconds, story, tell

RUN_S = 20
GO = ("keycheck", "keycheck-strip", "keycheck-pie")


@contextlib.contextmanager
def scene():
    with Fleet(3) as fleet:
        fleet.agent("languages", hz=199, window="2s")
        names = list(GO) + ["tmpl"] + (["rusty"] if os.path.exists(workload("rusty")) else [])
        children = {name: fleet.run(name, RUN_S, env=dict(os.environ, GOMAXPROCS="1")) for name in names}
        fleet.truth = {name: child.truth(RUN_S + 40) for name, child in children.items()}
        fleet.wait_until_stored()
        fleet.wait_for_names('{process=~"keycheck.*|tmpl|rusty"}')
        yield fleet


def tell_go(name):
    match = '{process="%s"}' % name

    @story("%s: the slow path costs at least 90 %%, the fast path at most 5 %%" % name)
    def _(fleet):
        top = fleet.top(match=match, cumulative=True)
        slow, fast = top.find("main.slowValidate"), top.find("main.fastValidate")
        expect(slow.share >= 0.90, "slowValidate has %.3f, of %s" % (slow.share, top.names()[:10]))
        expect(fast.share <= 0.05, "fastValidate has %.3f" % fast.share)
        truth = fleet.truth[name]["cpu_ns"]["main.slowValidate"]
        expect_near("%s slowValidate" % name, seconds(slow.value), seconds(truth), 0.0,
                    4 * seconds(slow.value) / max(slow.count, 1) ** 0.5)

    @story("%s: Go's runtime and regular expressions have their names" % name)
    def _(fleet):
        top = fleet.top(match=match, cumulative=True)
        for function in ("runtime.main", "main.main", "regexp.(*Regexp).doExecute"):
            expect(top.find(function).value > 0, "%s is missing from %s" % (function, top.names()[:40]))
        expect(top.find("runtime.main").share > 0.9, "runtime.main has %.3f" % top.find("runtime.main").share)

    @story("%s: 99 %% of the samples have the name of their leaf" % name)
    def _(fleet):
        complete = fleet.top(match=match).completeness
        expect(complete["unnamed"]["share"] <= 0.01, "unnamed: %s" % complete["unnamed"])


for go_name in GO:
    tell_go(go_name)


@story("a C++ template method is shown demangled")
def _(fleet):
    top = fleet.top(match='{process="tmpl"}')
    hot = top.find("shapes::Mixer<int, shapes::Tag<3> >::blend(unsigned long)",
                   "shapes::Mixer<int, shapes::Tag<3>>::blend(unsigned long)")
    expect(hot.share > 0.9, "the method has %.3f of %s" % (hot.share, top.names()[:10]))


@story("a Rust trait method is shown demangled, without its hash")
def _(fleet):
    if "rusty" not in fleet.truth:
        raise Skip("no rustc on this machine")
    top = fleet.top(match='{process="rusty"}')
    hot = top.rows[0]
    expect("churn" in hot.key and "$" not in hot.key and not hot.key.startswith("_") and "::h" not in hot.key[-19:],
           "the hottest function is %s" % hot.key)
    expect(hot.share > 0.9, "it has %.3f" % hot.share)


@story("each program's whole CPU time is accounted for")
def _(fleet):
    for name in GO:
        truth = sum(fleet.truth[name]["cpu_ns"].values())
        top = fleet.top(match='{process="%s"}' % name)
        expect_near(name, seconds(top.value), seconds(truth), 0.03, 4 * seconds(top.value) / max(top.count, 1) ** 0.5)


tell(scene)

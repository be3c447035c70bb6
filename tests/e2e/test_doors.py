#!/usr/bin/env python3
# timeout: 150
"""The ways out: every shard gives the same answer, the command line shows what the API says, mistakes get a text that
helps, a dead or frozen shard makes an answer partial and never late."""
import contextlib
import json
import os
import signal
import subprocess
import time

from fleet import Fleet, http_get, program, wait_until
from story import expect, note, story, tell

RUN_S = 8
BUCKET_MS = 10000  # the grain of a shard's answers
NODES = ("alpha", "beta", "gamma", "delta")  # enough names that more than one shard has some


@contextlib.contextmanager
def scene():
    with Fleet(3) as fleet:
        for node in NODES:
            fleet.agent(node, window="1s", hz=49)
        fleet.began_ms = int(time.time() * 1000) - 2000
        fleet.run("spin", RUN_S, 2).truth(RUN_S + 30)
        # Up to the end of a time bucket, and that one is over: nothing in the range moves any more.
        fleet.ended_ms = (int(time.time() * 1000) // BUCKET_MS + 1) * BUCKET_MS
        wait_until(lambda: time.time() * 1000 > fleet.ended_ms, BUCKET_MS / 1000 + 1, "the end of the bucket")
        fleet.wait_until_stored()
        fleet.wait_for_names('{process="spin"}')
        yield fleet


def fixed(fleet):
    return {"from": fleet.began_ms, "to": fleet.ended_ms}


@story("every shard gives the same answer for the whole fleet")
def _(fleet):
    answers = [fleet.ask("/api/v1/top", shard=i, group="function", limit=50, **fixed(fleet))["data"] for i in range(3)]
    expect(answers[0]["rows"] and answers[0] == answers[1] == answers[2], "the shards do not agree")
    owners = {a["shard"] for a in fleet.agents_state().values()}
    note("nodes lie on %d shards" % len(owners))


@story("the list of the first N is the head of the full list, and its sum is the total")
def _(fleet):
    full = fleet.top("function", limit=10000, **fixed(fleet))
    head = fleet.top("function", limit=5, **fixed(fleet))
    expect([r.raw for r in head.rows] == [r.raw for r in full.rows[:5]], "limit=5 is no prefix of the full list")
    ranked, unranked = sum(r.value for r in full.rows), full.completeness["unranked"]["value"]
    expect(ranked + unranked == full.value, "rows add up to %d, unranked is %d, the total is %d" %
           (ranked, unranked, full.value))
    by_node = fleet.top("node", **fixed(fleet))
    expect(sum(r.value for r in by_node.rows) == by_node.value == full.value, "nodes do not add up to the total")
    expect(sorted(by_node.names()) == sorted(NODES), "by node: %s" % by_node.names())


@story("matchers narrow the answer")
def _(fleet):
    one = fleet.top("node", '{node="alpha",process="spin"}', **fixed(fleet))
    expect(one.names() == ["alpha"], "asked for alpha, got %s" % one.names())
    rest = fleet.top("node", '{node!="alpha",process=~"sp.n"}', **fixed(fleet))
    both = fleet.top("node", '{process="spin"}', **fixed(fleet))
    expect(one.value + rest.value == both.value, "the parts do not add up")


@story("labels and their values are listed")
def _(fleet):
    labels = fleet.ask("/api/v1/labels", **fixed(fleet))["data"]["labels"]
    expect({"node", "process", "thread"} <= set(labels), "labels: %s" % labels)
    values = fleet.ask("/api/v1/labels/node/values", **fixed(fleet))["data"]["values"]
    expect(values == sorted(NODES), "nodes: %s" % values)


@story("fleetprof top shows the rows of the API, as a table, wide and as JSON")
def _(fleet):
    table, _ = fleet.cli("top", "--since", "5m", "--limit", "5", "-l", "process=spin")
    wide, _ = fleet.cli("top", "--since", "5m", "--limit", "5", "-l", "process=spin", "-o", "wide")
    raw, _ = fleet.cli("top", "--since", "5m", "--limit", "5", "-l", "process=spin", "-o", "json")
    note(table)
    for text in (table, wide):
        expect("FUNCTION" in text and "spin_50" in text and "spin_30" in text, "the table: %s" % text)
    expect(len(wide.splitlines()[0]) > len(table.splitlines()[0]), "wide is no wider")
    rows = json.loads(raw)["data"]["rows"]
    expect(rows[0]["keys"]["function"] == "spin_50", "JSON: %s" % rows[:1])


@story("fleetprof agents, folded, pprof and version work")
def _(fleet):
    agents, _ = fleet.cli("agents")
    expect(all(node in agents for node in NODES), "agents: %s" % agents)
    folded, _ = fleet.cli("folded", "--since", "5m", "-l", "process=spin")
    expect(any("spin_50" in line and line.rsplit(" ", 1)[1].isdigit() for line in folded.splitlines()), folded[:300])
    done = subprocess.run([program("fleetprof"), "--server", fleet.shards[1].url, "pprof", "--since", "5m"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    expect(done.returncode == 0 and done.stdout[:2] == b"\x1f\x8b", "pprof is not gzip: %r" % done.stderr)
    version, _ = fleet.cli("version")
    expect("fleetprof" in version, version)


@story("mistakes are refused with a text that says what is right")
def _(fleet):
    for argv, word in ((("top", "-l", 'process="'), "match"), (("top", "--since", "yesterday"), "since"),
                       (("topp",), "top"), (("top", "-o", "xml"), "table")):
        _, told = fleet.cli(*argv, expect=None)
        note("%s: %s" % (" ".join(argv), told.strip()[:150]))
        expect(word in told and len(told) < 1500, "%s: %s" % (argv, told))
    answer = fleet.ask("/api/v1/top", expect=400, grup="function")
    expect("grup" in answer["error"] and answer["hint"], "the API says %s" % answer)
    status, body = http_get(fleet.shards[0].url + "/api/v1/nothing")
    expect(status == 404 and "/api/v1/top" in body, "an unknown page: %d %s" % (status, body[:200]))


@story("a server that is not there is said in one line that says what to do")
def _(fleet):
    done = subprocess.run([program("fleetprof"), "--server", "http://127.0.0.1:1", "top"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", timeout=30, check=False)
    expect(done.returncode != 0 and "127.0.0.1:1" in done.stderr and "--server" in done.stderr, done.stderr)


@story("programs listen on loopback only unless told otherwise")
def _(fleet):
    pids = {child.pid for child in fleet.shards + fleet.agents}
    inodes = set()
    for pid in pids:
        for fd in os.listdir("/proc/%d/fd" % pid):
            with contextlib.suppress(OSError):
                target = os.readlink("/proc/%d/fd/%s" % (pid, fd))
                if target.startswith("socket:["):
                    inodes.add(target[8:-1])
    heard = 0
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as file:
            for fields in (line.split() for line in file.readlines()[1:]):
                if fields[3] == "0A" and fields[9] in inodes:  # LISTEN
                    heard += 1
                    expect(fields[1].startswith("0100007F:"), "%s listens on %s" % (table, fields[1]))
    expect(heard >= 2 * len(fleet.shards) + len(fleet.agents), "only %d listeners found" % heard)


@story("/healthz, /readyz and /metrics of every shard answer")
def _(fleet):
    for shard in fleet.shards:
        for page in ("/healthz", "/readyz", "/metrics"):
            status, body = http_get(shard.url + page)
            expect(status == 200, "%s%s: %d %s" % (shard.name, page, status, body[:100]))


def expect_partial(fleet, missing):
    begun = time.monotonic()
    top = fleet.top("node", shard=0, **fixed(fleet))
    took = time.monotonic() - begun
    note("answered in %.1f s: %s" % (took, top.completeness["shards"]))
    expect(top.completeness["partial"], "the answer is not marked partial")
    expect(top.completeness["shards"]["missing"] == [missing.link], "missing: %s" % top.completeness["shards"])
    expect(took < 12, "the answer took %.1f s" % took)


@story("a frozen shard makes the answer partial in time, and names itself")
def _(fleet):
    fleet.shards[1].signal(signal.SIGSTOP)
    try:
        expect_partial(fleet, fleet.shards[1])
        table, told = fleet.cli("top", "--since", "5m")
        expect("partial" in (table + told).lower() or fleet.shards[1].link in table + told,
               "the command line does not say that the answer is partial: %s %s" % (table, told))
    finally:
        fleet.shards[1].signal(signal.SIGCONT)


@story("a dead shard does too, and the others go on")
def _(fleet):
    fleet.shards[2].kill9()
    expect_partial(fleet, fleet.shards[2])


tell(scene)

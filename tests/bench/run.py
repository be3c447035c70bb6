#!/usr/bin/env python3
"""The benchmarks: every figure is taken beside its reference in one run of one machine, and printed as a ratio with its
target. Nothing here passes or fails: a target that is missed says so in its row.

  tests/bench/run.py [--only NAME,...] [--quick]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import fleet as fleets  # noqa: E402

BENCH = os.path.join(fleets.OUT, "tests", "bench")
TICKS = os.sysconf("SC_CLK_TCK")
CPUS = os.cpu_count()
STATS = "/proc/sys/kernel/bpf_stats_enabled"


# ---- reading processes ----
def cpu_seconds(pid):
    """CPU time of all threads that live: schedstat counts nanoseconds, stat only ticks."""
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/schedstat" % (pid, task), encoding="ascii") as file:
                total += int(file.read().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total / 1e9


def rss_mib(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0


def bpf_stats(on):
    with open(STATS, "w", encoding="ascii") as file:
        file.write("1" if on else "0")


# ---- the table ----
ROWS = []


def spread(values, form="%.3g"):
    values = sorted(values)
    return "/".join(form % v for v in (values[0], statistics.median(values), values[-1]))


def row(what, ours, reference, target, met):
    ROWS.append((what, ours, reference, target, "met" if met else "MISSED"))
    print("  %-62s %-34s %-34s %-22s %s" % ROWS[-1], flush=True)


def note(text):
    print("  # " + text, flush=True)


# ---- workloads ----
def start_mix(fleet, seconds):
    """Both CPUs busy: Go in regexp, C recursion, Python; and 100 processes that only sleep."""
    return [fleet.run("keycheck", seconds), fleet.run("deep", 50, seconds), fleet.run("pyloop.py", seconds),
            fleet.run("sleeper", 100, seconds)]


def stop_mix(mix):
    for child in mix:
        child.stop()


# ---- benchmarks ----
def measure_ours(agent, seconds):
    before, cpu_before = agent.metrics(), cpu_seconds(agent.pid)
    time.sleep(seconds)
    after, cpu_after = agent.metrics(), cpu_seconds(agent.pid)
    taken = 'fleetprof_agent_samples_total{state="taken"}'
    samples = after[taken] - before[taken]
    bpf = after["fleetprof_agent_bpf_run_nanoseconds_total"] - before["fleetprof_agent_bpf_run_nanoseconds_total"]
    return samples, (cpu_after - cpu_before) * 1e6 / samples, bpf / 1e3 / samples


def measure_tool(argv, hz, seconds, settle=4):
    """CPU of another sampler over `seconds`, after it has settled: microseconds a sample (rate x CPUs, all busy)."""
    with open(os.devnull, "w", encoding="ascii") as null:
        tool = subprocess.Popen(argv, stdout=null, stderr=null)
    try:
        time.sleep(settle)
        before, begun = cpu_seconds(tool.pid), time.monotonic()
        time.sleep(seconds)
        spent = cpu_seconds(tool.pid) - before
        return spent * 1e6 / (hz * CPUS * (time.monotonic() - begun))
    finally:
        tool.terminate()
        tool.wait()


def bench_agent(quick):
    """Agent and BPF CPU a sample on the mix, beside perf record and bpftrace at the same rate, in turns."""
    rounds, seconds = (1, 8) if quick else (3, 15)
    ours, bpf, perf, bpftrace, rss, wire = [], [], [], [], [], []
    with fleets.Fleet(1) as fleet, tempfile.TemporaryDirectory() as folder:
        mix = start_mix(fleet, 600)
        bpf_stats(True)
        try:
            for _ in range(rounds):
                agent = fleet.agent("bench", window="10s")
                time.sleep(12)
                sent = agent.metrics()
                samples, user_us, bpf_us = measure_ours(agent, seconds)
                time.sleep(max(0, 11 - seconds))
                now = agent.metrics()
                ours.append(user_us)
                bpf.append(bpf_us)
                rss.append(rss_mib(agent.pid))
                acked = "fleetprof_agent_ledger_acked_samples_total"
                sent_bytes = [k for k in now if k.startswith("fleetprof_shipper") and "bytes" in k and "sent" in k]
                if sent_bytes and now[acked] > sent[acked]:
                    wire.append((now[sent_bytes[0]] - sent[sent_bytes[0]]) / (now[acked] - sent[acked]))
                agent.stop()
                fleet.agents.remove(agent)
                perf.append(measure_tool(["perf", "record", "-q", "-F", "99", "-a", "-g", "-e", "cpu-clock", "-o",
                                          os.path.join(folder, "perf.data")], 99, seconds))
                bpftrace.append(measure_tool(["bpftrace", "-e",
                                              "profile:hz:99 { @[kstack, ustack, comm] = count(); }"], 99, seconds, 8))
        finally:
            bpf_stats(False)
            stop_mix(mix)
    row("agent user-space CPU, us a sample, mix, 99 Hz", spread(ours), "perf record -g %s" % spread(perf), "<= 16",
        statistics.median(ours) <= 16)
    row("  the same beside bpftrace's in-kernel counting", spread(ours), "bpftrace %s" % spread(bpftrace), "-", True)
    row("agent BPF, us a sample (kernel statistics)", spread(bpf), "-", "agent+BPF <= 50",
        statistics.median(ours) + statistics.median(bpf) <= 50)
    row("agent RSS under the mix, MiB", spread(rss), "-", "<= 48 (aim 32)", max(rss) <= 48)
    if wire:
        row("wire bytes a sample, agent on the mix", spread(wire), "-", "<= 9 (aim 6)", statistics.median(wire) <= 9)


def bench_quiet(quick):
    """Fixed cost at 20 Hz and memory with 200 idle processes."""
    seconds = 15 if quick else 40
    with fleets.Fleet(1) as fleet:
        sleepers = fleet.run("sleeper", 200, 600)
        agent = fleet.agent("bench", hz=20, window="10s")
        time.sleep(12)
        before, begun = cpu_seconds(agent.pid), time.monotonic()
        time.sleep(seconds)
        fixed = (cpu_seconds(agent.pid) - before) / (time.monotonic() - begun)
        rss = rss_mib(agent.pid)
        sleepers.stop()
    row("agent CPU-s/s at 20 Hz, 200 idle processes", "%.5f" % fixed, "-", "<= 0.005", fixed <= 0.005)
    row("agent RSS with 200 idle processes, MiB", "%.1f" % rss, "-", "<= 48 (aim 32)", rss <= 48)


def bench_start(quick):
    """From exec to the first counted sample and to the first data at the shard."""
    first, stored = [], []
    with fleets.Fleet(1) as fleet:
        spin = fleet.run("spin", 600)
        for i in range(2 if quick else 5):
            begun = time.monotonic()
            agent = fleets.Agent("start-%d" % i, fleet.links, fleet.folder, window="10s")
            agent.start()
            taken = 'fleetprof_agent_samples_total{state="submitted"}'
            fleets.wait_until(lambda a=agent: a.metrics().get(taken, 0) > 0, 30, "a first sample", every=0.02)
            first.append(time.monotonic() - begun)
            fleets.wait_until(lambda a=agent: fleet.agents_state().get(a.node, {}).get("samples", 0) > 0, 30,
                              "first data at the shard", every=0.05)
            stored.append(time.monotonic() - begun)
            agent.stop()
        spin.stop()
    row("start to first counted sample, s", spread(first), "-", "< 1", statistics.median(first) < 1)
    row("start to first data at the shard, s", spread(stored), "-", "< 3", statistics.median(stored) < 3)


def bench_slowdown(quick):
    """A fixed job with the agent on and off in turns: paired ratio of its CPU time."""
    pairs, hz = (4, 99) if quick else (20, 99)
    job = [os.path.join(BENCH, "bench_job"), "400000000"]

    def once():
        return json.loads(subprocess.run(job, stdout=subprocess.PIPE, check=True).stdout)
    ratios, wall = [], []
    with fleets.Fleet(1) as fleet:
        once()
        for i in range(pairs):
            order = (True, False) if i % 2 else (False, True)
            took = {}
            for on in order:
                agent = fleet.agent("bench", hz=hz, window="10s") if on else None
                took[on] = once()
                if agent:
                    agent.stop()
                    fleet.agents.remove(agent)
            ratios.append(took[True]["cpu"] / took[False]["cpu"])
            wall.append(took[True]["wall"] / took[False]["wall"])
    median = statistics.median(ratios)
    row("slowdown of a fixed job at 99 Hz, CPU on/off, %d pairs" % pairs, spread(ratios, "%.4f"), "off = 1",
        "<= 1.01", median <= 1.01)
    row("  the same, wall", spread(wall, "%.4f"), "off = 1", "-", True)


def pprof_reference():
    source = os.path.join(fleets.ROOT, "tests", "bench", "pprofref")
    built = os.path.join(BENCH, "pprofref")
    env = dict(os.environ, GOFLAGS="", CGO_ENABLED="0")
    subprocess.run(["go", "build", "-o", built, "."], cwd=source, env=env, check=True)
    return json.loads(subprocess.run([built], stdout=subprocess.PIPE, check=True).stdout)


def load(fleet, agents, windows, rows=500):
    """Streams a synthetic fleet into the shards: what the generator says, and the shards' CPU seconds."""
    before = sum(cpu_seconds(s.pid) for s in fleet.shards)
    done = subprocess.run([os.path.join(BENCH, "bench_load"), "--shards", ",".join(fleet.links), "--agents", str(agents),
                           "--windows", str(windows), "--rows", str(rows)], stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise fleets.FleetError("bench_load failed: %s" % done.stdout.decode())
    said = json.loads(done.stdout)
    said["cpu"] = sum(cpu_seconds(s.pid) for s in fleet.shards) - before
    return said


def time_top(fleet, nodes):
    for cumulative in (False, True):
        took = []
        for _ in range(9):
            begun = time.monotonic()
            fleet.top(limit=20, cumulative=cumulative)
            took.append((time.monotonic() - begun) * 1e3)
        row("top 20 %s, 15 min of %d nodes, ms" % ("cumulative" if cumulative else "self", nodes), spread(took), "-",
            "< 200", statistics.median(took) < 200)


def bench_ingest(quick):
    """One shard, nng receive + decode + merge, rows a core-second, beside google/pprof parse + merge; then the top of
    the 15 minutes it holds."""
    reference = pprof_reference()
    sizes = ((10, 30, 500), (100, 88, 500)) if quick else ((1, 88, 500), (100, 88, 500), (1000, 88, 500), (10000, 3, 100))
    for agents, windows, rows in sizes:
        with fleets.Fleet(1, shard_extra=["--window-bytes", "4G"]) as fleet:
            said = load(fleet, agents, windows, rows)
            rate = said["rows"] / said["cpu"]
            ratio = rate / reference["rows_per_second"]
            # Three windows of ten thousand agents are first contact: nearly every byte defines a stack.
            steady = windows > 3
            row("ingest, %d agents x %d windows x %d rows, rows/s/core" % (agents, windows, rows), "%.0f" % rate,
                "pprof %.0f: %.1f x" % (reference["rows_per_second"], ratio), ">= 10 x (aim 30)" if steady else "-",
                ratio >= 10 or not steady)
            note("samples/s/core %.0f; bytes a row: first windows %.1f, later %.2f; shard RSS %.0f MiB" % (
                said["samples"] / said["cpu"], said["bytes_per_row_first"], said["bytes_per_row_steady"],
                rss_mib(fleet.shards[0].pid)))
            if windows == 88 and agents > 1:
                row("wire bytes a sample after the first windows, %d agents" % agents,
                    "%.2f" % said["bytes_per_sample_steady"], "pprof gzip %.0f a row" % reference["bytes_per_row"],
                    "<= 9 (aim 6)", said["bytes_per_sample_steady"] <= 9)
                time_top(fleet, agents)


def bench_merge(quick):
    """The shard's own row-merging loop beside the machine's limit of random read-modify-writes."""
    said = json.loads(subprocess.run([os.path.join(BENCH, "bench_merge")], stdout=subprocess.PIPE, check=True).stdout)
    for what, key in (("256 MiB of totals", "merge_per_second"), ("1 MiB of totals", "merge_warm_per_second")):
        ratio = said[key] / said["rmw_per_second"]
        row("merge of rows into %s, one thread, M rows/s" % what, "%.1f" % (said[key] / 1e6),
            "random RMW %.1f: %.2f x" % (said["rmw_per_second"] / 1e6, ratio), ">= 0.5 x (aim 0.8)", ratio >= 0.5)


def bench_floor(quick):
    """BPF time a sample beside the minimal frame-pointer program, by a program of its own."""
    path = os.path.join(BENCH, "bench_bpf_floor")
    if os.path.exists(path):
        print(subprocess.run([path], stdout=subprocess.PIPE, check=True).stdout.decode(), end="", flush=True)


ALL = [("floor", bench_floor), ("agent", bench_agent), ("quiet", bench_quiet), ("start", bench_start),
       ("slowdown", bench_slowdown), ("merge", bench_merge), ("ingest", bench_ingest)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="comma separated: " + ", ".join(n for n, _ in ALL))
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else [n for n, _ in ALL]
    print("%d CPUs, Linux %s; min/median/max where three figures stand" % (CPUS, os.uname().release))
    print("  %-62s %-34s %-34s %-22s %s" % ("what", "ours", "reference", "target", ""))
    for name, bench in ALL:
        if name in chosen:
            bench(options.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""demo: three aggregator shards and one node-agent on loopback, with --workloads a few small programs that burn CPU,
and the live table of the costliest functions. Ctrl-C (or --seconds N) stops what was started here and nothing else.

Ports: HTTP 4040, 4041, 4042 and link 4140, 4141, 4142; PORT_BASE=5040 in the environment moves them.
"""
import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fleet import Fleet, FleetError, program, wait_until, workload  # noqa: E402

SHARDS = 3
FIRST_TABLE_S = 30


class Stop(Exception):
    """Ctrl-C, SIGTERM or the end of the time."""


def on_signal(_number, _frame):
    raise Stop


def ports_or_die():
    try:
        base = int(os.environ.get("PORT_BASE", "4040"))
    except ValueError:
        sys.exit("demo: PORT_BASE must be a number, not '%s'" % os.environ["PORT_BASE"])
    ports = [(base + i, base + 100 + i) for i in range(SHARDS)]
    for port in (p for pair in ports for p in pair):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                sys.exit("demo: port %d cannot be used (%s): stop what listens there, or choose other ports: "
                         "sudo make demo PORT_BASE=%d" % (port, error.strerror, base + 1000))
    return ports


def start_workloads(fleet, seconds):
    fleet.run("keycheck", seconds)
    fleet.run("spin", seconds)
    fleet.run(sys.executable, workload("pyloop.py"), seconds, log_name="pyloop")
    print("Workloads: keycheck (Go: a regular expression against a byte loop), spin (C: functions at 50/30/15/5), "
          "pyloop (Python)")


def explain(fleet):
    url = fleet.shards[0].url
    name = os.path.relpath(program("fleetprof"))
    server = "" if url.endswith(":4040") else " --server " + url
    print("\nThe fleet answers at %s (any shard answers for all):" % url)
    print("  %s%s top --since 5m -o wide          the costliest functions, with intervals" % (name, server))
    print("  %s%s top -l process=spin --cumulative" % (name, server))
    print("  %s%s agents                          nodes, rates, losses" % (name, server))
    print("  %s%s pprof --since 5m > cpu.pb.gz && go tool pprof -top cpu.pb.gz" % (name, server))
    print("  curl '%s/api/v1/top?limit=5'\n" % url)
    sys.stdout.flush()


def show(fleet, seconds):
    """The live table, until the time is over or somebody presses Ctrl-C."""
    argv = [program("fleetprof"), "--server", fleet.shards[0].url, "top", "--watch", "--since", "1m", "--limit", "15"]
    end = time.monotonic() + seconds if seconds else None
    # Its own session: Ctrl-C reaches this script, which stops everything in order.
    table = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        while end is None or time.monotonic() < end:
            if table.poll() is not None:
                raise FleetError("the live table ended with status %d" % table.returncode)
            for child in fleet.shards + fleet.agents:
                if not child.alive():
                    raise FleetError("%s ended; its log: %s" % (child.name, child.log_path))
            time.sleep(0.2)
    finally:
        if table.poll() is None:
            table.terminate()
            try:
                table.wait(10)
            except subprocess.TimeoutExpired:
                table.kill()
                table.wait()


def run(arguments):
    started = time.monotonic()
    with Fleet(SHARDS, ports=ports_or_die()) as fleet:
        fleet.keep_logs = True
        try:
            fleet.agent("demo-node", window="5s")
            if arguments.workloads:
                start_workloads(fleet, arguments.seconds or 7 * 24 * 3600)
            wait_until(lambda: fleet.top("process").rows, FIRST_TABLE_S, "the first samples at the shards")
            print("First data after %.1f s." % (time.monotonic() - started))
            explain(fleet)
            left = arguments.seconds - (time.monotonic() - started) if arguments.seconds else None
            show(fleet, None if left is None else max(left, 3))
        except Stop:
            pass
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("\nStopping the demo's own processes ...")
        sys.stdout.flush()
        fleet.stop()
        folder = fleet.folder
    shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description="Three shards, one agent and the live fleet top table.")
    parser.add_argument("--workloads", action="store_true", help="start a few programs that burn CPU")
    parser.add_argument("--seconds", type=float, help="end by itself after so long")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("demo: the agent needs root to load its eBPF program: use sudo make demo")
    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    try:
        run(arguments)
    except Stop:
        pass
    except FleetError as error:
        print("demo: %s" % error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

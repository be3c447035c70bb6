#!/usr/bin/env python3
"""pyloop.py SECONDS: an interpreter at work. Truth: {"process_cpu_ns": N}. Its Python functions are named by the
interpreter unwinders (later work); today its time shows under the interpreter's own C functions."""
import json
import signal
import sys
import time


def inner(limit):
    return sum(i * i for i in range(limit))


def outer(limit):
    return inner(limit) % 97


def main():
    running = [True]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: running.clear())
    end = time.monotonic() + float(sys.argv[1] if len(sys.argv) > 1 else 5)
    while running and time.monotonic() < end:
        outer(20000)
    print(json.dumps({"process_cpu_ns": time.process_time_ns()}))


main()

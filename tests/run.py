#!/usr/bin/env python3
"""The one test runner. Arguments are test programs: cmocka binaries, Python tests (*.py) and shell tests (*.sh).

Each prints TAP on stdout. What a program says is added up and closed with one line:

    N passed, N failed, N skipped

A crash, a timeout, a missing result or a non-zero exit without a "not ok" is one more failure, named after the program.
Exit status 1 on any failure, when nothing ran at all, and (with REQUIRE=1) on any skip.

A script raises its time limit with a `# timeout: SECONDS` line among its first five. Programs of tests/unit and
tests/lint run two at a time, all others alone, because they measure or load the machine.
"""
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

DEFAULT_TIMEOUT_S = 300
PARALLEL = 2
RESULT = re.compile(r"^(not )?ok\b[ \t]*(\d+)?[ \t]*(?:-[ \t]*)?(.*)$")
DIRECTIVE = re.compile(r"#\s*(SKIP|TODO)\b[ \t]*(.*)$", re.IGNORECASE)
PLAN = re.compile(r"^1\.\.(\d+)(?:\s*#\s*SKIP\b\s*(.*))?\s*$", re.IGNORECASE)
SKIP_STATUS = 77  # a whole program that cannot run here: its last line of output names what is missing


class Outcome:
    """What one program showed."""

    def __init__(self, program):
        self.program = program
        self.passed = 0
        self.failures = []
        self.skips = []
        self.output = ""
        self.seconds = 0.0


def parse_tap(text, outcome):
    """Counts results into outcome; returns (results seen, results planned or None)."""
    seen, planned = 0, None
    for line in text.splitlines():
        plan = PLAN.match(line)
        if plan:
            planned = (planned or 0) + int(plan.group(1))
            if plan.group(1) == "0" and plan.group(2):
                outcome.skips.append(plan.group(2))
            continue
        result = RESULT.match(line)
        if not result:
            continue
        seen += 1
        failed, name = bool(result.group(1)), result.group(3).strip()
        directive = DIRECTIVE.search(name)
        if directive and directive.group(1).upper() == "SKIP":  # cmocka writes "not ok 3 # SKIP name"
            outcome.skips.append(" ".join(name.replace(directive.group(0), "").split() + [directive.group(2)]))
        elif failed:
            outcome.failures.append(name or "test %s" % (result.group(2) or seen))
        else:
            outcome.passed += 1
    return seen, planned


def judge(outcome, status, timed_out, limit_s):
    """Turns output and exit status into counts."""
    seen, planned = parse_tap(outcome.output, outcome)
    if timed_out:
        outcome.failures.append("%s: no end after %d s" % (outcome.program, limit_s))
    elif status < 0:
        outcome.failures.append("%s: killed by signal %d" % (outcome.program, -status))
    elif status == SKIP_STATUS and seen == 0:
        reason = outcome.output.strip().splitlines()
        outcome.skips.append(reason[-1] if reason else "no reason given")
    elif status != 0 and not outcome.failures:
        outcome.failures.append("%s: exit status %d" % (outcome.program, status))
    elif planned is not None and seen != planned and not outcome.failures:
        outcome.failures.append("%s: %d results, %d were planned" % (outcome.program, seen, planned))
    elif seen == 0 and not outcome.skips and not outcome.failures:
        outcome.failures.append("%s: printed no test result" % outcome.program)


def command_of(program):
    if program.endswith(".py"):
        return [sys.executable, program]
    if program.endswith(".sh"):
        return ["bash", program]
    path = program if os.sep in program else os.path.join(".", program)
    # ThreadSanitizer of gcc 12 gives up where the kernel spreads mappings wider than it expects.
    return ["setarch", "-R", path] if "/san-thread/" in path else [path]


def limit_of(program):
    if not program.endswith((".py", ".sh")):
        return DEFAULT_TIMEOUT_S
    with open(program, encoding="utf-8", errors="replace") as script:
        for _, line in zip(range(5), script):
            match = re.match(r"#\s*timeout:\s*(\d+)", line)
            if match:
                return int(match.group(1))
    return DEFAULT_TIMEOUT_S


def kill_group(pid):
    """The program's own process group, so that nothing it started stays behind."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_one(program):
    outcome = Outcome(program)
    started = time.monotonic()
    environment = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP", PYTHONUNBUFFERED="1")
    environment.pop("CMOCKA_XML_FILE", None)
    environment.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    # nng 1.5.2 loses 2.5 kB of a dialer that is closed in the same milliseconds in which it connects; nothing else is
    # forgiven, and nothing of ours.
    suppressions = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nng.lsan")
    environment.setdefault("LSAN_OPTIONS", "print_suppressions=0:suppressions=" + suppressions)
    try:
        limit_s = limit_of(program)
        # A file, not a pipe: a grandchild that outlives its parent must not keep the runner waiting.
        with tempfile.TemporaryFile() as output:
            child = subprocess.Popen(command_of(program), stdin=subprocess.DEVNULL, stdout=output,
                                     stderr=subprocess.STDOUT, env=environment, start_new_session=True)
            timed_out = False
            try:
                status = child.wait(limit_s)
            except subprocess.TimeoutExpired:
                timed_out = True
            finally:
                kill_group(child.pid)
            status = child.wait()
            output.seek(0)
            outcome.output = output.read().decode("utf-8", "replace")
        judge(outcome, status, timed_out, limit_s)
    except OSError as error:
        outcome.failures.append("%s: %s" % (program, error))
    outcome.seconds = time.monotonic() - started
    return outcome


def may_share(program):
    return re.search(r"(^|/)tests/(unit|lint)/", program) is not None


def report(outcome, number, total):
    words = ["%d passed" % outcome.passed]
    if outcome.failures:
        words.append("%d FAILED" % len(outcome.failures))
    if outcome.skips:
        words.append("%d skipped" % len(outcome.skips))
    print("[%3d/%d] %-58s %s  %.1f s" % (number, total, outcome.program, ", ".join(words), outcome.seconds))
    for reason in outcome.skips:
        print("          skipped: %s" % reason)
    if outcome.failures:
        for line in outcome.output.splitlines()[-400:]:
            print("    | " + line)
        for name in outcome.failures:
            print("    FAILED: %s" % name)
    sys.stdout.flush()


def main(programs):
    sys.stdout.reconfigure(errors="backslashreplace")
    shared = [p for p in programs if may_share(p)]
    alone = [p for p in programs if not may_share(p)]
    outcomes = []
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run_one, p) for p in shared]):
            outcomes.append(done.result())
            report(outcomes[-1], len(outcomes), len(programs))
    for program in alone:
        outcomes.append(run_one(program))
        report(outcomes[-1], len(outcomes), len(programs))

    passed = sum(o.passed for o in outcomes)
    failed = [(o.program, name) for o in outcomes for name in o.failures]
    skipped = [(o.program, reason) for o in outcomes for reason in o.skips]
    for program, name in failed:
        print("FAILED  %s: %s" % (program, name))
    for program, reason in skipped:
        print("SKIPPED %s: %s" % (program, reason))
    if passed + len(failed) + len(skipped) == 0:
        print("no tests were run")
    print("%d passed, %d failed, %d skipped" % (passed, len(failed), len(skipped)))
    required = os.environ.get("REQUIRE") == "1"
    return 1 if failed or passed == 0 or (required and skipped) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""Shows tests/run.py small made-up programs and compares its closing line and exit status."""
import os
import subprocess
import sys
import tempfile

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "run.py")
CASES = [
    # (what it shows, files, environment, closing line, exit status)
    ("counts passes and ends well", {"a.sh": 'echo 1..2; echo "ok 1 - x"; echo "ok 2 - y"'}, {}, (2, 0, 0), 0),
    ("a not ok fails the run", {"a.sh": 'echo "ok 1 - x"; echo "not ok 2 - y"; exit 1'}, {}, (1, 1, 0), 1),
    ("a skip is no failure", {"a.sh": 'echo "ok 1 - x"; echo "ok 2 - y # SKIP no bpf"'}, {}, (1, 0, 1), 0),
    ("cmocka's form of a skip is one", {"a.sh": 'echo "ok 1 - x"; echo "not ok 2 # SKIP y"'}, {}, (1, 0, 1), 0),
    ("a skip fails when REQUIRE=1", {"a.sh": 'echo "ok 1 - x"; echo "ok 2 - y # SKIP no"'}, {"REQUIRE": "1"},
     (1, 0, 1), 1),
    ("exit 77 without a result is a skip", {"a.sh": 'echo CAP_BPF is missing; exit 77', "b.sh": 'echo "ok 1 - x"'}, {},
     (1, 0, 1), 0),
    ("a crash is a failure", {"a.sh": 'echo "ok 1 - x"; kill -SEGV $$'}, {}, (1, 1, 0), 1),
    ("a non-zero exit with all ok is a failure", {"a.sh": 'echo "ok 1 - x"; exit 3'}, {}, (1, 1, 0), 1),
    ("a result that never came is a failure", {"a.sh": 'echo 1..3; echo "ok 1 - x"'}, {}, (1, 1, 0), 1),
    ("a program without results is a failure", {"a.sh": "true"}, {}, (0, 1, 0), 1),
    ("a file that is not there is a failure", {}, {}, (0, 1, 0), 1),
    ("a timeout is a failure and ends the whole group",
     {"a.sh": '# timeout: 1\nsleep 600 & echo $! > "$PIDFILE"; echo "ok 1 - x"; wait'}, {}, (1, 1, 0), 1),
    ("a child left behind does not hold the runner up", {"a.sh": 'sleep 600 & echo $! > "$PIDFILE"; echo "ok 1 - x"'},
     {}, (1, 0, 0), 0),
    ("python programs run too", {"a.py": 'print("1..1"); print("ok 1 - x")'}, {}, (1, 0, 0), 0),
    ("bytes that are no text cost nothing", {"a.sh": r'printf "\xff\xfe\n"; echo "not ok 1 - x"'}, {}, (0, 1, 0), 1),
]


def still_lives(pid_file):
    if not os.path.exists(pid_file):
        return False
    with open(pid_file, encoding="ascii") as file:
        pid = file.read().strip()
    try:
        with open("/proc/%s/stat" % pid, encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def check(files, environment, counts, status):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text + "\n")
        programs = [os.path.join(folder, name) for name in files] or [os.path.join(folder, "missing.sh")]
        pid_file = os.path.join(folder, "pid")
        clean = {k: v for k, v in os.environ.items() if k != "REQUIRE"}
        run = subprocess.run([sys.executable, RUN] + programs, env=dict(clean, PIDFILE=pid_file, **environment),
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
        text = run.stdout.decode("utf-8", "replace")
        closing = text.rstrip("\n").rsplit("\n", 1)[-1]
        good = closing == "%d passed, %d failed, %d skipped" % counts and run.returncode == status
        return good and not still_lives(pid_file), text


def main():
    print("1..%d" % len(CASES))
    failures = 0
    for number, (name, files, environment, counts, status) in enumerate(CASES, 1):
        good, text = check(files, environment, counts, status)
        print("%sok %d - %s" % ("" if good else "not ", number, name))
        if not good:
            failures += 1
            print("".join("# " + line + "\n" for line in text.splitlines()))
    empty = subprocess.run([sys.executable, RUN], stdout=subprocess.PIPE, check=False)
    return 1 if failures or empty.returncode != 1 else 0


if __name__ == "__main__":
    sys.exit(main())

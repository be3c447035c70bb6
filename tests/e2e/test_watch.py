#!/usr/bin/env python3
# timeout: 60
"""`fleetprof top --watch` on a terminal: redraws in place, fits the screen, ends on Ctrl-C with status 0; colour only
where it is wanted."""
import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

from fleet import Fleet, program
from story import expect, note, story, tell

ROWS, COLUMNS = 12, 72


@contextlib.contextmanager
def scene():
    with Fleet(2) as fleet:
        fleet.agent("alpha", window="1s")
        fleet.run("spin", 6, 1).truth(30)
        fleet.wait_until_stored()
        yield fleet


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *argv, **environment):
        self.text = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(argv[0], argv, dict(os.environ, TERM="xterm", **environment))
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def read_until(self, done, limit_s=20):
        end = time.monotonic() + limit_s
        while not done(self.text):
            expect(time.monotonic() < end, "waited in vain, the terminal shows: %r" % self.text[-600:])
            if select.select([self.fd], [], [], 0.2)[0]:
                self.text += os.read(self.fd, 65536)

    def press(self, keys):
        os.write(self.fd, keys)

    def wait(self):
        with contextlib.suppress(OSError):  # EIO: the other side is closed
            while chunk := os.read(self.fd, 65536):
                self.text += chunk
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return status


def watch(fleet, *argv, **environment):
    return Terminal(program("fleetprof"), "--server", fleet.shards[0].url, "top", "--watch=200ms", "--since", "5m", *argv,
                    **environment)


@story("watch redraws in place, fits the screen and ends on Ctrl-C with status 0")
def _(fleet):
    terminal = watch(fleet)
    terminal.read_until(lambda text: text.count(b"\x1b[H") >= 4)
    terminal.press(b"\x03")
    status = terminal.wait()
    expect(status == 0, "status %d" % status)
    screens = terminal.text.split(b"\x1b[H")[2:-1]
    for screen in screens:
        lines = re.sub(rb"\x1b\[[0-9;]*[A-Za-z]", b"", screen).decode().replace("\r", "").splitlines()
        expect(len(lines) < ROWS, "%d lines on a screen of %d" % (len(lines), ROWS))
        table = [line for line in lines if "%" in line and "shards" not in line]
        expect(table and all(len(line) < COLUMNS for line in table), "lines do not fit: %s" % table)
        expect("FUNCTION" in lines[1] and "SELF" in lines[1], "no table: %s" % lines)
    note("%d screens" % len(screens))


@story("an answer that is partial is red, and plain where NO_COLOR is set")
def _(fleet):
    fleet.shards[1].kill9()
    for environment, red in (({}, True), ({"NO_COLOR": "1"}, False)):
        terminal = watch(fleet, "--count", "1", **environment)
        status = terminal.wait()
        expect(status == 0 and b"PARTIAL ANSWER" in terminal.text, "status %d: %r" % (status, terminal.text))
        expect((b"\x1b[1;31m" in terminal.text) == red, repr(terminal.text))


tell(scene)

"""story: the frame of an end-to-end test file. A file sets one scene (a fleet, workloads that ran, their truths) and
tells several stories about it, each a function with a sentence for a name; the result is TAP.

    @contextlib.contextmanager
    def scene(): ...; yield whatever
    @story("the slow path costs nearly everything")
    def _(scene): expect(...)
    tell(scene)
"""
import os
import sys
import traceback

_stories = []


class Skip(Exception):
    """What is missing, in words."""


def story(sentence):
    def keep(function):
        _stories.append((sentence, function))
        return function
    return keep


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def expect_near(what, got, want, relative, absolute=0.0):
    """got within want +- (relative * want + absolute)."""
    room = abs(want) * relative + absolute
    expect(abs(got - want) <= room, "%s: %.4g, expected %.4g +- %.2g" % (what, got, want, room))
    note("%s: %.4g, truth %.4g (%+.1f %%)" % (what, got, want, 100 * (got - want) / want if want else 0))


def expect_share(what, row, truth):
    """The truth within twice the printed 95 % interval: four standard errors, so that a right product fails here about
    once in ten thousand shares. How often the printed interval itself holds is told by the rates story."""
    low = row.share - 2 * (row.share - row.share_low)
    high = row.share + 2 * (row.share_high - row.share)
    note("%s: %.1f %% in [%.1f, %.1f], truth %.1f %%" % (what, 100 * row.share, 100 * row.share_low,
                                                       100 * row.share_high, 100 * truth))
    expect(low <= truth <= high, "%s: share %.4f [%.4f, %.4f], truth %.4f" %
           (what, row.share, row.share_low, row.share_high, truth))


def note(text):
    print("# " + text.encode("ascii", "backslashreplace").decode().replace("\n", "\n# "))


def seconds(nanoseconds):
    return nanoseconds / 1e9


def _tell_one(number, sentence, function, scene):
    try:
        function(scene)
        print("ok %d - %s" % (number, sentence))
        return True
    except Skip as reason:
        print("ok %d - %s # SKIP %s" % (number, sentence, reason))
        return True
    except Exception:  # a story's failure is its own; the others go on  pylint: disable=broad-except
        print("not ok %d - %s" % (number, sentence))
        note(traceback.format_exc().rstrip())
        return False


def tell(scene):
    """Sets the scene, tells all stories, exits."""
    sys.stdout.reconfigure(line_buffering=True)
    print("1..%d" % len(_stories))
    good = True
    if os.geteuid() != 0:
        for number, (sentence, _) in enumerate(_stories, 1):
            print("ok %d - %s # SKIP needs root to load eBPF programs" % (number, sentence))
        sys.exit(0)
    try:
        with scene() as stage:
            for number, (sentence, function) in enumerate(_stories, 1):
                good = _tell_one(number, sentence, function, stage) and good
    except Skip as reason:
        for number, (sentence, _) in enumerate(_stories, 1):
            print("ok %d - %s # SKIP %s" % (number, sentence, reason))
    except Exception:  # pylint: disable=broad-except
        note(traceback.format_exc().rstrip())
        print("not ok - the scene could be set and cleared")
        good = False
    sys.exit(0 if good else 1)

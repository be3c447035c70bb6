"""fleet: shards, agents and workloads as real processes, for the end-to-end tests, the demo and nobody else.

Everything listens on loopback, writes its log into one folder and is stopped by its process id, never by name.
Nothing here sleeps for a fixed time and hopes: wait_until() polls a condition up to a deadline.
"""
import ctypes
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
OUT = os.path.join(ROOT, os.environ.get("OUT", "out/rel"))
BIN = os.path.join(OUT, "bin")
WORKLOADS = os.path.join(OUT, "workloads")
STOP_S = 10
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class FleetError(Exception):
    """Something did not start, answer or end; the text says what and where its log is."""


def program(name):
    path = os.path.join(BIN, name)
    if not os.access(path, os.X_OK):
        raise FleetError("%s is not built: run make" % path)
    return path


def workload(name):
    """Path of a built workload, or of a script beside the sources."""
    built = os.path.join(WORKLOADS, name)
    return built if os.path.exists(built) else os.path.join(ROOT, "tests", "workloads", name)


def wait_until(condition, seconds, what, every=0.1):
    """The first true result of condition(); FleetError after `seconds`. Refused connections count as not yet."""
    end = time.monotonic() + seconds
    while True:
        try:
            result = condition()
            if result:
                return result
        except (OSError, urllib.error.URLError, ValueError, KeyError) as error:
            what_now = "%s (%s)" % (what, error)
        else:
            what_now = what
        if time.monotonic() > end:
            raise FleetError("waited %g s for %s" % (seconds, what_now))
        time.sleep(every)


_given_ports = set()


def free_port():
    """A port nobody listens on now and that was not handed out before."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in _given_ports:
            _given_ports.add(port)
            return port


class Child:
    """One started process with its log file."""

    def __init__(self, name, argv, folder, env=None, cwd=None, affinity=None):
        self.name = name
        self.argv = [str(a) for a in argv]
        self.log_path = os.path.join(folder, name + ".log")
        self.out_path = os.path.join(folder, name + ".out")
        self.env, self.cwd, self.affinity = env, cwd, affinity
        self.process = None

    def _before_exec(self):
        # Ends with its starter, even when that one is killed: nothing of a test or a demo stays behind.
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if self.affinity:
            os.sched_setaffinity(0, self.affinity)

    def start(self):
        # Append: a restarted program goes on in the same log.
        with open(self.log_path, "ab") as log, open(self.out_path, "ab") as out:
            # Its own session: Ctrl-C in a terminal reaches the starter only, which stops everything in order.
            self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=log, env=self.env,
                                            cwd=self.cwd, preexec_fn=self._before_exec, start_new_session=True)
        return self

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        if self.alive():
            self.process.send_signal(number)

    def kill9(self):
        self.signal(signal.SIGKILL)
        if self.process:
            self.process.wait()

    def stop(self):
        """SIGTERM, then SIGKILL; the exit status."""
        self.signal(signal.SIGTERM)
        return self.join_stop()

    def join_stop(self):
        if self.process is None:
            return None
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def wait(self, seconds):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise FleetError("%s did not end within %g s" % (self.name, seconds)) from None

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def output(self):
        with open(self.out_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def truth(self, seconds=60):
        """Waits for a workload's end and gives the JSON it printed last."""
        status = self.wait(seconds)
        if status != 0:
            raise FleetError("%s ended with status %s: %s" % (self.name, status, self.log()[-500:]))
        return json.loads(self.output().strip().splitlines()[-1])


def http_get(url, timeout=30):
    """(status, body as text)."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as reply:
            return reply.status, reply.read().decode("utf-8")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode("utf-8", "replace")


def read_metrics(url):
    """Prometheus text -> {'name{label="value"}': number}."""
    figures = {}
    status, text = http_get(url)
    if status != 200:
        raise OSError("%s: status %d" % (url, status))
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            figures[name] = float(value)
    return figures


class Row:
    """One row of a top answer."""

    def __init__(self, raw, group):
        self.raw, self.keys = raw, raw["keys"]
        self.key = self.keys[group]
        self.module = self.keys.get("module")
        self.value, self.count = raw["value"], raw["count"]
        self.low, self.high = raw["interval"]["low"], raw["interval"]["high"]
        self.share = raw["share"]
        self.share_low, self.share_high = raw["share_interval"]["low"], raw["share_interval"]["high"]


class Top:
    """A top answer."""

    def __init__(self, answer):
        data = answer["data"]
        self.group = data["group"][0]
        self.rows = [Row(r, self.group) for r in data["rows"]]
        self.value, self.count = data["total"]["value"], data["total"]["count"]
        self.completeness = answer["completeness"]

    def find(self, *names):
        """The row called one of these; an empty one when there is none."""
        for row in self.rows:
            if row.key in names:
                return row
        return Row({"keys": {self.group: names[0]}, "value": 0, "count": 0, "interval": {"low": 0, "high": 0},
                    "share": 0.0, "share_interval": {"low": 0.0, "high": 0.0}}, self.group)

    def names(self):
        return [r.key for r in self.rows]


class Shard(Child):
    """One aggregator."""

    def __init__(self, number, http_port, link_port, folder):
        super().__init__("shard-%d" % number, [], folder)
        self.url = "http://127.0.0.1:%d" % http_port
        self.http = "127.0.0.1:%d" % http_port
        self.link = "tcp://127.0.0.1:%d" % link_port

    def set_peers(self, links, extra=()):
        self.argv = [program("aggregator"), "--http", self.http, "--link", self.link, "--shards", ",".join(links)]
        self.argv += [str(a) for a in extra]

    def wait_ready(self, seconds=15):
        def ready():
            if not self.alive():
                raise FleetError("%s ended with status %s; its log:\n%s" %
                                 (self.name, self.process.returncode, self.log()[-2000:]))
            return http_get(self.url + "/readyz", 2)[0] == 200
        wait_until(ready, seconds, "%s to be ready (log: %s)" % (self.name, self.log_path))


class Agent(Child):
    """One node-agent."""

    def __init__(self, node, links, folder, hz=99, window="2s", extra=(), affinity=None, before=()):
        """hz None: from the settings file that extra names. before: a command to start it through (setpriv ...)."""
        self.node, self.window_s = node, float(window.rstrip("s"))
        self.http = "127.0.0.1:%d" % free_port()
        self.url = "http://" + self.http
        argv = list(before) + [program("node-agent"), "--node", node, "--shards", ",".join(links), "--window", window,
                               "--http", self.http] + (["--hz", hz] if hz else []) + list(extra)
        super().__init__("agent-" + node, argv, folder, affinity=affinity)

    def wait_ready(self, seconds=20):
        def ready():
            if not self.alive():
                raise FleetError("%s ended with status %s; its log:\n%s" %
                                 (self.name, self.process.returncode, self.log()[-2000:]))
            return http_get(self.url + "/healthz", 2)[0] == 200
        wait_until(ready, seconds, "%s to be ready (log: %s)" % (self.name, self.log_path))

    def metrics(self):
        return read_metrics(self.url + "/metrics")


class Fleet:
    """Shards, agents and workloads that begin and end together. Use as a context manager."""

    def __init__(self, shards=3, ports=None, folder=None, shard_extra=()):
        self.folder = folder or tempfile.mkdtemp(prefix="fleetprof-")
        self.keep_logs = folder is not None
        self.agents, self.others = [], []
        ports = ports or [(free_port(), free_port()) for _ in range(shards)]
        self.shards = [Shard(i, http, link, self.folder) for i, (http, link) in enumerate(ports)]
        self.links = [s.link for s in self.shards]
        for shard in self.shards:
            shard.set_peers(self.links, shard_extra)

    def __enter__(self):
        try:
            self.start_shards()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind, error, trace):
        self.stop()
        if kind is not None:
            self.keep_logs = True
            print("# logs of the fleet: %s" % self.folder)
            for child in self.shards + self.agents:
                for line in child.log().splitlines()[-15:] if os.path.exists(child.log_path) else []:
                    print("# %s: %s" % (child.name, line))
        elif not self.keep_logs:
            subprocess.run(["rm", "-rf", self.folder], check=False)

    def start_shards(self):
        for shard in self.shards:
            shard.start()
        for shard in self.shards:
            shard.wait_ready()

    def agent(self, node, **options):
        agent = Agent(node, self.links, self.folder, **options)
        self.agents.append(agent)
        agent.start().wait_ready()
        return agent

    def run(self, name, *argv, log_name=None, **options):
        """Starts a workload (a built one by its name, or any path) and gives its Child."""
        path = name if os.sep in name else workload(name)
        taken = len([c for c in self.others if c.name.startswith(os.path.basename(name))])
        child = Child(log_name or "%s-%d" % (os.path.basename(name), taken), [path] + list(argv), self.folder, **options)
        self.others.append(child)
        return child.start()

    def run_as(self, process_name, name, *argv, **options):
        """A workload under another process name (15 characters count): the kernel takes the link's name."""
        link = os.path.join(self.folder, process_name)
        if not os.path.exists(link):
            os.symlink(workload(name), link)
        return self.run(link, *argv, log_name=process_name, **options)

    def stop(self):
        """Everybody is told first and waited for then; agents before shards, so that they can deliver."""
        for group in (self.others, self.agents, self.shards):
            for child in group:
                child.signal(signal.SIGTERM)
            for child in group:
                child.join_stop()

    # ---- questions ----
    def ask(self, path, shard=0, expect=200, **parameters):
        """GET of one shard; JSON decoded when it is JSON."""
        pairs = [(k, v) for k, values in parameters.items() for v in (values if isinstance(values, list) else [values])]
        url = self.shards[shard].url + path + ("?" + urllib.parse.urlencode(pairs) if pairs else "")
        status, body = http_get(url)
        if status != expect:
            raise FleetError("%s: status %d: %s" % (url, status, body[:500]))
        return json.loads(body) if body.startswith(("{", "[")) else body

    def cli(self, *argv, shard=0, expect=0, timeout=60):
        """fleetprof as a person runs it; (stdout, stderr). expect None: any exit status but 0."""
        done = subprocess.run([program("fleetprof"), "--server", self.shards[shard].url] + [str(a) for a in argv],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
                              encoding="utf-8", errors="replace", check=False)
        if done.returncode == 0 if expect is None else done.returncode != expect:
            raise FleetError("fleetprof %s: status %d: %s" % (" ".join(argv), done.returncode, done.stderr[-500:]))
        return done.stdout, done.stderr

    def top(self, group="function", match=None, cumulative=False, since="15m", limit=1000, shard=0, **more):
        """One top answer as a Top."""
        parameters = dict(more, group=group, limit=limit)
        if "from" not in more:
            parameters["since"] = since
        if match:
            parameters["match"] = match
        if cumulative:
            parameters["cumulative"] = "true"
        return Top(self.ask("/api/v1/top", shard=shard, **parameters))

    def agents_state(self, shard=0):
        """{node: what its shard knows about the agent}."""
        return {a["node"]: a for a in self.ask("/api/v1/agents", shard=shard)["data"]["agents"]}

    def stacks(self, match=None, since="15m"):
        """[([frame root first, ...], nanoseconds)] from the folded door."""
        parameters = {"since": since}
        if match:
            parameters["match"] = match
        found = []
        for line in self.ask("/api/v1/folded", **parameters).splitlines():
            stack, value = line.rsplit(" ", 1)
            found.append((stack.split(";"), int(value)))
        return found

    def wait_for_names(self, match, seconds=45):
        """Until no sampled leaf of the selection is without its name any more, or nothing got better for ten seconds:
        some code has no names."""
        last = []

        def settled():
            unnamed = self.top(match=match).completeness["unnamed"]["samples"]
            last.append(unnamed)
            return unnamed == 0 or (len(last) > 100 and len(set(last[-100:])) == 1)
        wait_until(settled, seconds, "names for %s" % match)

    def wait_until_stored(self, seconds=20):
        """Until every agent's window under way now has been sealed, sent and acknowledged: what has ended before this
        call is in every answer after it."""
        marks = {a: a.metrics().get("fleetprof_agent_ledger_put_samples_total", 0) for a in self.agents if a.alive()}
        begun = time.time()

        def stored():
            state = self.agents_state()
            return all(state[a.node]["last_seen_ms"] > (begun + a.window_s + 0.5) * 1000 and
                       a.metrics()["fleetprof_agent_ledger_acked_samples_total"] >= mark for a, mark in marks.items())
        wait_until(stored, seconds, "the last windows to be stored")

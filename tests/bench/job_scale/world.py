# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""One simulated job: a real etcd, a real shift-kvd for each host, and processes (processes.c).

Runs as the first process of namespaces of its own (namespaces()), so that

- the loopback interface carries nothing else, and its counters are the bytes of this job,
- /run is a file system in memory that nobody else sees, and
- everything ends with this process, however it ends.
"""
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

JOB = "scale"
RUN = "/run"
PORT = 2379
SETTLE_S = 600
KV_STATUS = 9
CLOCK_PROCESS_CPU = 2  # MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED)
# The guard of etcd lists the leases once a second, which is part of what a job costs.
METRICS = {
    "etcd_debugging_lease_granted_total": "leases_granted",
    "etcd_debugging_lease_renewed_total": "leases_renewed",
    "etcd_debugging_mvcc_current_revision": "revisions",
    "etcd_debugging_mvcc_events_total": "events",
    "etcd_debugging_mvcc_slow_watcher_total": "slow_watchers",
    "etcd_debugging_mvcc_watcher_total": "watchers",
    "etcd_mvcc_delete_total": "deletes",
    "etcd_mvcc_put_total": "puts",
    "etcd_mvcc_range_total": "ranges",
    "etcd_mvcc_txn_total": "transactions",
    "etcd_mvcc_db_total_size_in_bytes": "db_bytes",
    "etcd_mvcc_db_total_size_in_use_in_bytes": "db_bytes_used",
    "process_open_fds": "open_fds",
}
GAUGES = {"db_bytes", "db_bytes_used", "open_fds", "watchers", "slow_watchers"}


def namespaces():
    """The command under which inside() is run."""
    begin = f'mount -t tmpfs tmpfs {RUN} && ip link set lo up && exec "$@"'
    return ["unshare", "--user", "--map-current-user", "--keep-caps", "--net", "--mount", "--pid", "--fork",
            "--kill-child", "--mount-proc", "sh", "-c", begin, "sh"]


class Failed(Exception):
    """What the user is told."""


def ask_etcd(path, body=None):
    """The answer of etcd's port. By hand: urllib takes longer to load than a small job to join."""
    data = json.dumps(body).encode() if body else b""
    with socket.create_connection(("127.0.0.1", PORT), timeout=SETTLE_S) as s:
        s.sendall(f"{'POST' if body else 'GET'} {path} HTTP/1.0\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        answer = b"".join(iter(lambda: s.recv(1 << 16), b""))
    head, _, text = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise Failed(f"etcd answers {path} with {head[:80]}")
    return text.decode()


def etcd_keys():
    """The number of keys in etcd, whoever has put them."""
    zero = "AA=="  # a NUL in base64: from the first to the last
    answer = ask_etcd("/v3/kv/range", {"key": zero, "range_end": zero, "count_only": True})
    return int(json.loads(answer).get("count", 0))


def metrics():
    pairs = (line.rsplit(" ", 1) for line in ask_etcd("/metrics").splitlines() if not line.startswith("#"))
    return {METRICS[name]: int(float(value)) for name, value in pairs if name in METRICS}


def cpu_s(pid):
    return time.clock_gettime((~pid << 3) | CLOCK_PROCESS_CPU)


def memory_kb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))


def pids_named(name):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
                if f.read().strip() == name:
                    found.append(int(pid))
        except OSError:
            pass  # it has ended
    return found


def loopback_bytes():
    with open("/proc/net/dev", encoding="ascii") as f:
        line = next(line for line in f if line.strip().startswith("lo:"))
    return int(line.split()[9])


def connections():
    """Those of the daemons with etcd, and the bytes of etcd's own: its gateway is a client of itself."""
    text = subprocess.run(["ss", "-tinpOH", f"dport = :{PORT}"], check=True, capture_output=True, text=True).stdout
    of_daemons = own_bytes = 0
    for line in text.splitlines():
        if '"etcd"' not in line:
            of_daemons += line.startswith("ESTAB")
            continue
        counts = dict(word.split(":") for word in line.split() if word.count(":") == 1)
        headers = 52 * (int(counts.get("segs_out", 0)) + int(counts.get("segs_in", 0)))
        own_bytes += int(counts.get("bytes_sent", 0)) + int(counts.get("bytes_received", 0)) + headers
    if not own_bytes:
        raise Failed("ss does not say which connections are etcd's own")
    return of_daemons, own_bytes


def read_exactly(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            raise OSError("the daemon has hung up")
        data += more
    return data


class World:
    def __init__(self, spec, build):
        self.spec, self.kvd_program = spec, f"{build}/kv/shift-kvd"
        self.processes_program = f"{build}/tests/bench/job_scale/processes"
        self.kvds, self.daemons = [], []
        self.etcd = self.guard = 0
        self.processes = None

    # ---- what runs -------------------------------------------------------------------------------

    def kvd_environment(self, host):
        os.makedirs(f"{RUN}/h{host}", mode=0o700, exist_ok=True)
        return dict(os.environ, SHIFT_RUN_DIR=f"{RUN}/h{host}")

    def start_etcd(self):
        """As shift-run --kv start@ does, on the first host. But its guard ends an etcd that does not answer for a
        minute: on a machine that is full of other work that is one that gets no processor."""
        env = dict(self.kvd_environment(0), SHIFT_ETCD_DEAF_MS=str(1000 * SETTLE_S))
        done = subprocess.run([self.kvd_program, "etcd", "--job", JOB, "--listen", f"127.0.0.1:{PORT}"], env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=SETTLE_S, check=False)
        if done.returncode:
            raise Failed(f"etcd does not start (status {done.returncode})")
        self.etcd, = pids_named("etcd")
        self.guard, = pids_named("shift-kvd")

    def start_daemon(self, host):
        """In the foreground, as what a detached one says goes to syslog."""
        env = self.kvd_environment(host)
        with open(f"{RUN}/h{host}/said", "w", encoding="utf-8") as said:
            daemon = subprocess.Popen([self.kvd_program, "--job", JOB, "--kv", f"http://127.0.0.1:{PORT}",
                                       "--foreground", "--grace", "600s", "--timeout", "60s"],
                                      env=env, stdin=subprocess.DEVNULL, stderr=said)
        self.kvds.append(daemon.pid)
        self.daemons.append(daemon)

    def what_daemons_said(self):
        lines = []
        for host in range(len(self.kvds)):
            with open(f"{RUN}/h{host}/said", encoding="utf-8", errors="replace") as f:
                lines += [f"host {host}: {line.strip()}" for line in f]
        return lines

    def start_processes(self):
        s = self.spec
        command = [self.processes_program, "--run-dir", RUN, "--job", JOB, "--timeout", f"{SETTLE_S}s"]
        for name in ("hosts", "processes", "nics", "peers"):
            command += [f"--{name}", str(s[name])]
        self.processes = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, command):
        try:
            self.processes.stdin.write(command + "\n")
            self.processes.stdin.flush()
            return json.loads(self.processes.stdout.readline())
        except (OSError, ValueError) as e:
            raise Failed(f"the simulated processes do not answer: {e}") from e

    # ---- how it is -------------------------------------------------------------------------------

    def status(self, host):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(SETTLE_S)
        s.connect(f"{RUN}/h{host}/{JOB}/kvd.sock")
        s.sendall(struct.pack("<IBH", 3, KV_STATUS, 0))
        _, _, length = struct.unpack("<IBH", read_exactly(s, 7))
        text = read_exactly(s, length)
        s.close()
        return json.loads(text)

    def status_or_none(self, host):
        """None: it does not listen yet."""
        if self.daemons[host].poll() is not None:
            raise Failed(f"shift-kvd of host {host} has ended: {self.what_daemons_said()[-1:]}")
        try:
            return self.status(host)
        except (FileNotFoundError, ConnectionRefusedError):
            return None

    def looked_at(self, host):
        """Hosts whose records the daemon of this one has: its own, and those at which its processes look."""
        s, hosts = self.spec, {host}
        for n in range(s["peers"]):
            away = (n // 2 + 1) * (-1 if n % 2 else 1)  # as peer_number() of processes.c
            hosts.add((host + away) % s["hosts"])
        return hosts if host < s["hosts"] else set()

    def keys_of(self, host, joined, dead):
        """The number of keys that the daemon has: records, but not those of the dead, and that they have died."""
        s, hosts = self.spec, self.looked_at(host)
        living = len(hosts) * s["processes"] - sum(victim // s["processes"] in hosts for victim in dead)
        return len(dead) + (living * s["nics"] if joined else 0)

    def settle(self, joined=True, dead=()):
        """Until each daemon has what it is to have, and etcd all that is its. The time, since when it is so."""
        end = time.monotonic() + SETTLE_S
        for host in range(len(self.kvds)):
            keys = self.keys_of(host, joined, dead)
            while True:
                s = self.status_or_none(host)
                if s and s["etcd"] == "up" and s["keys"] == keys and not s["queue"]:
                    break
                if time.monotonic() > end:
                    raise Failed(f"after {SETTLE_S} s the daemon of host {host} does not have {keys} keys: {s}")
                time.sleep(0.1)
        return time.monotonic()

    def reconnects(self):
        """How often daemons have begun anew with etcd, which costs more: they were starved of processor time."""
        return sum(self.status(host)["connects"] - 1 for host in range(len(self.kvds)))

    def snapshot(self):
        of_daemons, own_bytes = connections()
        return {"etcd": cpu_s(self.etcd), "guard": cpu_s(self.guard), "kvds": [cpu_s(pid) for pid in self.kvds],
                "bytes": loopback_bytes() - own_bytes, "connections": of_daemons, "time": time.monotonic()}

    def phase(self, act):
        """What act() costs. It returns what else there is to say, and when it was over, or None."""
        counted, before = metrics(), self.snapshot()
        more, over = act()
        after, end = self.snapshot(), metrics()
        kvds = [b - a for a, b in zip(before["kvds"], after["kvds"])] + after["kvds"][len(before["kvds"]):]
        return {
            "seconds": (over or after["time"]) - before["time"],
            "etcd_cpu_s": after["etcd"] - before["etcd"], "guard_cpu_s": after["guard"] - before["guard"],
            "kvds_cpu_s": sum(kvds), "kvd_cpu_max_s": max(kvds, default=0),
            "host_bytes": after["bytes"] - before["bytes"], "connections": after["connections"],
            "etcd": {name: end[name] - (0 if name in GAUGES else counted[name]) for name in sorted(end)}, **more}

    # ---- what happens ----------------------------------------------------------------------------

    def victims(self):
        """Another of its host each time, so that its peers live."""
        s = self.spec
        return [n * s["hosts"] // s["deaths"] * s["processes"] + n % s["processes"] for n in range(s["deaths"])]

    def start_daemons(self):
        for host in range(self.spec["hosts"]):
            self.start_daemon(host)
        return {}, self.settle(joined=False)

    def join(self):
        told = self.tell("join")
        over = self.settle()
        kvds = [memory_kb(pid) for pid in self.kvds]
        return {**told, "etcd_rss_kb": memory_kb(self.etcd), "kvd_rss_kb": sum(kvds) // len(kvds),
                "kvd_rss_max_kb": max(kvds)}, over

    def connect(self):
        told = self.tell(f"connect {self.spec['connections'] - 1}")
        return told, self.settle()

    def idle(self):
        time.sleep(self.spec["idle_s"])
        return {}, None

    def die(self):
        times = [self.tell(f"kill {victim}") for victim in self.victims()]
        # The records of the dead are gone; that they died is told to those who come later.
        return {"deaths": times}, self.settle(dead=self.victims())

    def come_late(self):
        """A host whose processes have not started yet."""
        self.start_daemon(self.spec["hosts"])
        return {"kvd_rss_kb": memory_kb(self.kvds[-1])}, self.settle(dead=self.victims())

    def live(self):
        s, result = self.spec, dict(self.spec)
        self.start_etcd()
        result["start"] = self.phase(self.start_daemons)
        self.start_processes()
        keys_before = etcd_keys()
        result["join"] = self.phase(self.join)
        result["keys"] = {"before": keys_before, "joined": etcd_keys()}
        if s["connections"] > 1:
            result["connect"] = self.phase(self.connect)
            result["keys"]["connected"] = etcd_keys()
        if s["idle_s"]:
            result["idle"] = self.phase(self.idle)
        if s["deaths"]:
            result["death"] = self.phase(self.die)
            result["keys"]["after_deaths"] = etcd_keys()
        result["late"] = self.phase(self.come_late)
        result["reconnects"] = self.reconnects()
        result["daemons"] = [{name: self.status(host).get(name) for name in ("events", "watchers", "streams")}
                             for host in range(len(self.kvds))]
        result["said"] = self.what_daemons_said()
        self.tell("leave")
        return result


def end_with(stdin):
    """Whoever started us is gone: so is everything here, as the first process ends."""
    while stdin.read(1):
        pass
    os._exit(1)


def inside(spec, build):
    """Prints the result as JSON. Ends without waiting for what runs: the kernel ends it."""
    threading.Thread(target=end_with, args=(sys.stdin,), daemon=True).start()
    status = 0
    try:
        print(json.dumps(World(spec, build).live()), flush=True)
    except (Failed, OSError, subprocess.SubprocessError) as e:
        print(f"job-scale: {spec['hosts']}x{spec['processes']}: {e}", file=sys.stderr, flush=True)
        status = 1
    os._exit(status)

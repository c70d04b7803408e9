#!/usr/bin/env python3
"""Draws faults of a training over processes, has them happen, and looks at what is said, when, and what is left.

  faults.py PROGRAM LIBRARY [--cases N] [--seed S] [--hosts H] [--timeout S] [--case KIND:ROLE]

LIBRARY is injected_fault.cpp as a shared library. With one host the program starts mpirun itself; several hosts are
network namespaces, which need root. A case is a kind of fault and who it happens to; each has to be told rightly and in
time, to end the run with the right status, and to leave no process and no shared memory."""
import argparse, json, os, random, re, signal, subprocess, sys, tempfile, time

KINDS = ["exception", "thread", "abort", "segmentation", "INT", "TERM", "KILL", "STOP", "lock", "memory"]
ROLES = ["first", "beside", "elsewhere", "launcher"]
OUTSIDE = ["link", "host"]  # of several hosts: a link that goes down, a host that vanishes


def run(*words):
    return subprocess.run(words, capture_output=True, text=True)


class Hosts:
    """Network namespaces, named after this process."""

    def __init__(self, count, ranks):
        self.count, self.ranks, self.name = count, ranks, f"sf{os.getpid()}"
        self.folder = tempfile.mkdtemp(prefix="faults_hosts.")
        run("ip", "link", "add", f"b{self.name}", "type", "bridge")
        run("ip", "link", "set", f"b{self.name}", "up")
        for i in range(count):
            self.add(i)
        with open(f"{self.folder}/hosts", "w") as f:
            f.writelines(f"10.79.0.{10 + i} slots={ranks}\n" for i in range(count))
        agent = f"{self.folder}/agent"
        with open(agent, "w") as f:
            f.write(f"#!/bin/bash\nn={self.name}-$((${{1##*.}} - 10)); shift\n"
                    f'exec ip netns exec $n unshare --uts bash -c "hostname $n; $*"\n')
        os.chmod(agent, 0o755)

    def add(self, i):
        n = f"{self.name}-{i}"
        run("ip", "netns", "add", n)
        run("ip", "link", "add", f"v{i}{self.name}", "type", "veth", "peer", "name", "eth0", "netns", n)
        run("ip", "link", "set", f"v{i}{self.name}", "master", f"b{self.name}", "up")
        run("ip", "-n", n, "addr", "add", f"10.79.0.{10 + i}/24", "dev", "eth0")
        for link in ("eth0", "lo"):
            run("ip", "-n", n, "link", "set", link, "up")

    def cut(self, i):
        run("ip", "link", "set", f"v{i}{self.name}", "down")

    def mend(self, i):
        run("ip", "link", "set", f"v{i}{self.name}", "up")

    def pids(self, i):
        return [int(p) for p in run("ip", "netns", "pids", f"{self.name}-{i}").stdout.split()]

    def command(self, environment):
        out = ["ip", "netns", "exec", f"{self.name}-0", "unshare", "--uts", "bash", "-c",
               f'hostname {self.name}-0; exec "$@"', "x", "mpirun", "-n", str(self.count * self.ranks),
               "--allow-run-as-root", "--hostfile", f"{self.folder}/hosts", "--bind-to", "none",
               "--mca", "plm_rsh_agent", f"{self.folder}/agent", "--mca", "plm_rsh_no_tree_spawn", "1",
               "--mca", "oob_tcp_if_include", "10.79.0.0/24", "--mca", "btl_tcp_if_include", "10.79.0.0/24",
               "--mca", "pml", "ob1", "--mca", "btl", "vader,tcp,self", "--mca", "mpi_yield_when_idle", "1"]
        for name in environment:
            out += ["-x", name]
        return out

    def remove(self):
        for i in range(self.count):
            for pid in self.pids(i):
                os.kill(pid, signal.SIGKILL)
            run("ip", "link", "del", f"v{i}{self.name}")
            run("ip", "netns", "del", f"{self.name}-{i}")
        run("ip", "link", "del", f"b{self.name}")


def processes(mark):
    """Of programs whose environment holds the mark: number -> rank, or None of others."""
    out = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                environment = f.read()
            with open(f"/proc/{pid}/stat") as f:
                state = f.read().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if mark in environment and state != "Z":
            rank = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", environment)
            out[int(pid)] = int(rank.group(1)) if rank else None
    return out


def traces(mark):
    """Patterns of what a run's ranks have in shared memory, and their launchers' folders."""
    segments, folders = set(), set()
    for pid in processes(mark):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                environment = dict(e.split("=", 1) for e in f.read().decode(errors="replace").split("\0") if "=" in e)
        except OSError:
            continue
        if job := environment.get("OMPI_MCA_ess_base_jobid"):
            segments.add(f".{int(job):x}.")
        if folder := environment.get("OMPI_MCA_orte_jobfam_session_dir"):
            folders.add(folder)
    return segments, folders


def left_of(segments, folders):
    return [n for n in os.listdir("/dev/shm") if any(s in n for s in segments)] + [
        f for f in folders if any(files for _, _, files in os.walk(f))]


class Case:
    def __init__(self, options, hosts, kind, role):
        self.o, self.hosts, self.kind, self.role = options, hosts, kind, role
        self.ranks = 4
        self.rank = {"first": 0, "beside": 1, "elsewhere": self.ranks - 1}.get(role)

    def start(self, folder):
        self.mark = f"FAULTS_RUN={os.path.basename(folder)}"
        environment = {**os.environ, "INJECTED_FAULT": f"{folder}/fault.", "LD_PRELOAD": os.path.realpath(self.o.library),
                       "FAULTS_RUN": os.path.basename(folder)}
        words = [os.path.realpath(self.o.program), "train", "ffn", "--devices", str(self.ranks), *self.o.words,
                 "--steps", "1000000", "--json", "--save", f"{folder}/run", "--timeout", f"{self.o.timeout}s"]
        if self.hosts:
            environment.pop("LD_PRELOAD")
            # mpirun's agent is a shell, which shall have no faults.
            words = ["env", f"LD_PRELOAD={os.path.realpath(self.o.library)}", *words]
            words = self.hosts.command(["INJECTED_FAULT", "FAULTS_RUN"]) + words
        else:
            words += ["--runtime", "mpi"]
        self.out, self.err = open(f"{folder}/out", "w+"), open(f"{folder}/err", "w+")
        self.process = subprocess.Popen(words, stdout=self.out, stderr=self.err, env=environment, cwd=folder)

    def text(self, file):
        with open(file.name, errors="replace") as f:
            return f.read()

    def wait(self, what, seconds):
        """The seconds that it took; None: too long."""
        begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            if what():
                return time.monotonic() - begin
            time.sleep(0.01)
        return None

    def happen(self, folder):
        if self.kind == "link":
            return self.hosts.cut(self.hosts.count - 1)
        if self.kind == "host":
            self.hosts.cut(self.hosts.count - 1)
            for pid in self.hosts.pids(self.hosts.count - 1):
                os.kill(pid, signal.SIGKILL)
            return None
        if self.role == "launcher":
            name = {"abort": "ABRT", "segmentation": "SEGV"}.get(self.kind, self.kind)
            pid = self.process.pid
            return os.kill(pid, getattr(signal, "SIG" + name))
        if self.kind.isupper():
            pids = [p for p, rank in processes(self.mark.encode()).items() if rank == self.rank]
            return os.kill(pids[0], getattr(signal, "SIG" + self.kind))
        with open(f"{folder}/fault.new", "w") as f:
            f.write(self.kind + "\n")
        os.rename(f"{folder}/fault.new", f"{folder}/fault.{self.rank}")
        return None

    def expected(self):
        """A pattern of what is said, within how many seconds, and the statuses."""
        r, late = self.rank, self.o.timeout + 2
        # Where a rank of its own host dies, mpirun sleeps before it shows what others say, who have said it after half a second;
        # a rank beside says it sooner.
        soon = 2.5 if self.hosts and self.hosts.ranks == 1 and r == 0 else 2
        place = r"(, last at step \d+, .*)?"
        lost = {75} if not self.hosts else {75, 134, 137, 139}  # mpirun's own is that of the first that ended
        if self.kind == "link" or self.kind == "host":
            gone = "|".join(str(r) for r in range(self.ranks - self.o.per_host, self.ranks))
            # A host that is gone does not answer its daemon's launcher either, which has to be ended.
            return (rf"shardwright: rank \d: .* waited .* for ranks? ({gone})\b.*, which gives? no sign of life, on \S+-"
                    rf"{self.hosts.count - 1}\b"), late, {75, 1, 137, -9, -15, 143}
        if self.role == "launcher":
            return None, 4, None
        if self.kind in ("INT", "TERM"):
            return r"shardwright: interrupted: stopped after step \d+", 4, {130}
        if self.kind == "KILL":
            return rf"shardwright: rank {r} on \S+ has died{place}$", soon, lost
        if self.kind in ("thread", "abort"):
            return rf"shardwright: rank {r} on \S+ was ended by signal 6 \(Aborted\){place}$", soon, lost
        if self.kind == "segmentation":
            return rf"shardwright: rank {r} on \S+ was ended by signal 11 \(Segmentation fault\){place}$", soon, lost
        if self.kind == "STOP":
            # Elsewhere a rank that is alone on its host looks as a host that is gone.
            alone = self.hosts and self.hosts.ranks == 1 and r > 0
            return (rf"shardwright: rank \d: .* waited .* for rank {r}, which gives no sign of life", late,
                    {75, -9} if alone else {75})
        if self.kind == "lock":
            return rf"shardwright: rank \d: .* waited .* for rank {r}, which does nothing", late, {75}
        if self.kind == "memory":
            return rf"shardwright: rank {r}: .*out of memory", 2, {75}
        return rf"shardwright: rank {r}: .*the sky fell", 2, {70}

    def check(self):
        with tempfile.TemporaryDirectory(prefix="faults.") as folder:
            self.start(folder)
            mistakes, named, ended = [], None, None
            try:
                if self.wait(lambda: '"step":9,' in self.text(self.out), 60) is None:
                    return [f"did not start: {self.text(self.err)}"], {}
                time.sleep(self.o.random.random() * 0.3)
                segments, folders = traces(self.mark.encode())
                begin = time.monotonic()
                self.happen(folder)
                pattern, seconds, statuses = self.expected()
                if pattern:
                    named = self.wait(lambda: re.search(pattern, self.text(self.err), re.M), seconds)
                    if named is None:
                        mistakes.append(f"not named within {seconds} s")
                try:
                    self.process.wait(max(0.1, begin + seconds + 8 - time.monotonic()))
                    ended = time.monotonic() - begin
                    if statuses and self.process.returncode not in statuses:
                        mistakes.append(f"status {self.process.returncode}, not one of {statuses}")
                except subprocess.TimeoutExpired:
                    mistakes.append("does not end")
                if self.kind == "link":
                    self.hosts.mend(self.hosts.count - 1)
                if self.wait(lambda: not processes(self.mark.encode()), 4) is None:
                    mistakes.append(f"processes are left: {processes(self.mark.encode())}")
                # A launcher that is killed at once leaves Open MPI's folder, in which there is nothing large.
                left = left_of(segments, set() if self.role == "launcher" else folders)
                if self.kind == "host":  # what lies there is there as long as it
                    left = [name for name in left if f"{self.hosts.name}-{self.hosts.count - 1}." not in name]
                if left:
                    mistakes.append(f"shared memory is left: {sorted(left)[:5]}")
                if mistakes:
                    mistakes.append("said: " + self.text(self.err)[-int(os.environ.get("TAIL", 1500)):])
            finally:
                for pid in processes(self.mark.encode()):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                self.process.kill()
                self.process.wait()
                if self.kind == "host" and self.hosts:
                    self.hosts.mend(self.hosts.count - 1)
            return mistakes, {"named": named, "ended": ended, "status": self.process.returncode}


def drawn(o):
    """Each kind and role once before any comes again."""
    all_cases = [(k, r) for k in KINDS for r in ROLES if r != "launcher" or k in ("abort", "segmentation", "INT", "TERM", "KILL")]
    if o.hosts > 1:
        all_cases += [(k, "elsewhere") for k in OUTSIDE]
    out = []
    while len(out) < o.cases:
        o.random.shuffle(all_cases)
        out += all_cases
    return out[:o.cases]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("library")
    parser.add_argument("--cases", type=int, default=4)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=8)
    parser.add_argument("--case", action="append", default=[])
    parser.add_argument("--words", default="--parallel data_parallel")
    o = parser.parse_args()
    seed = o.seed if o.seed is not None else random.randrange(1 << 30)
    o.random, o.words, o.per_host = random.Random(seed), o.words.split(), 4 // o.hosts
    cases = [tuple(c.split(":")) for c in o.case] or drawn(o)
    hosts = None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if o.hosts > 1:
        if os.geteuid() != 0 or run("ip", "netns", "add", f"sf{os.getpid()}").returncode != 0:
            print("skipped: hosts are network namespaces, which only root can make")
            sys.exit(77)
        run("ip", "netns", "del", f"sf{os.getpid()}")
        hosts = Hosts(o.hosts, o.per_host)
    failed = 0
    try:
        for kind, role in cases:
            mistakes, told = Case(o, hosts, kind, role).check()
            times = ", ".join(f"{k} {v:.2f} s" for k, v in told.items() if k != "status" and v is not None)
            print(f"{kind}:{role}: status {told.get('status')}, {times}{'' if not mistakes else ' WRONG'}", flush=True)
            for m in mistakes:
                print("   " + m.replace("\n", "\n      "), flush=True)
            failed += bool(mistakes)
    finally:
        if hosts:
            hosts.remove()
    print(f"seed {seed}: {len(cases)} cases, {failed} wrong")
    sys.exit(1 if failed else 0)


main()

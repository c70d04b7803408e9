#!/usr/bin/python3
"""Disturbs training runs that save checkpoints, at random moments, and restarts them with --resume auto until they end.

Usage: tests/scripts/checkpoint_kills.py PROGRAM [--rounds N] [--seed S] [--only ROUND] [--tell]

A round has a folder of its own and one kind of disturbance, which comes up to three times:
  kill       SIGKILL to a job of threads
  rank       SIGKILL to one process of an MPI job, which has to end by itself
  launcher   SIGKILL to what has started an MPI job; the restart does not wait for the others
  interrupt  SIGINT, sometimes twice
  flip, truncate, delete   SIGKILL to all, then damage to a file of the latest checkpoint
  full       the disk, a small tmpfs, is full until it is enlarged
  readonly   the folder cannot be written for a while, by a bind mount: remounting is refused while a run holds a lock
The last two need root and are left out with a notice without it.

What has to be true: every loss is that of an undisturbed run, to the last bit; a restart goes on from the last
checkpoint that a line has reported, or a later one, unless the disturbance has damaged it; `latest` leads to a
checkpoint; a run that could not save says so and ends with 2; no process stays behind.

Moments depend on the machine, so a seed repeats a round only about. Prints a line for each kind; for each fault what is
wrong and the commands. Exits with 1 if there was a fault.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

STEPS = 120
PATIENCE = 60  # seconds that a job may take to end
MODEL = "llama:layers=2,hidden=32,heads=4,kv_heads=2,ffn=48,vocab=64,seq=8,batch=16"
THREADS = [
    "--devices 4 --optimizer adamw",
    "--devices 4 --optimizer adamw --set dp=2,tp=2",
    "--devices 4 --optimizer momentum --stages 2",
    "--devices 4 --optimizer adamw --optimizer-parallel 3:threshold=0",
    "--devices 2 --optimizer adam --precision products-fp16",
    "--devices 1 --optimizer sgd",
]
MPI = [
    "--runtime mpi --devices 2 --optimizer adamw",
    "--runtime mpi --devices 3 --optimizer adamw",
    "--runtime mpi --devices 4 --optimizer adamw --set dp=2,tp=2",
    "--runtime mpi --devices 2 --optimizer momentum --stages 2",
]
KINDS = {  # and what they disturb
    "kill": THREADS,
    "rank": MPI,
    "launcher": MPI,
    "interrupt": THREADS + MPI,
    "flip": THREADS + MPI,
    "truncate": THREADS + MPI,
    "delete": THREADS + MPI,
    "full": THREADS + MPI,
    "readonly": THREADS + MPI,
}
DAMAGES = ("flip", "truncate", "delete")
NEED_MOUNT = ("full", "readonly")


class Fault(Exception):
    """Something that has to be true and is not."""


def require(condition, text):
    if not condition:
        raise Fault(text)


def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True, capture_output=True)


def unmount(path):
    subprocess.run(["umount", "-l", str(path)], check=False, capture_output=True)


def can_mount(scratch):
    place = scratch / "can_mount"
    place.mkdir()
    try:
        mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", place)
    except (subprocess.CalledProcessError, FileNotFoundError):
        return False
    unmount(place)
    return True


def processes_of(folder):
    """Process ids to command lines of those that name the folder. What has ended has no command line."""
    out = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if os.fsencode(folder) in words:
                out[int(entry.name)] = b" ".join(words).decode(errors="replace")
    return out


def ranks_of(folder):
    """Rank to process id."""
    out = {}
    for process in processes_of(folder):
        with contextlib.suppress(OSError):
            for variable in pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
                    out[int(variable.split(b"=")[1])] = process
    return out


def end_all(folder):
    """SIGKILL to what names the folder, until nothing does."""
    while left := processes_of(folder):
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.002)


def wait_until(condition, seconds):
    """Whether it has come true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.0005)
    return True


def steps_in(folder):
    """Of the checkpoints that there are."""
    with contextlib.suppress(OSError):
        return {int(e.name[5:]) for e in os.scandir(folder) if e.name.startswith("step-")}
    return set()


def latest_of(folder):
    with contextlib.suppress(OSError):
        return int(os.readlink(folder / "latest")[5:])
    return None


def is_writing(folder):
    with contextlib.suppress(OSError):
        return any(e.name.startswith(".unfinished-") for e in os.scandir(folder))
    return False


class Job:
    """A run of the program, and what it has printed."""

    def __init__(self, words, folder, errors_path):
        self.words = words
        self.folder = folder
        self.losses = {}
        self.checkpoints = []  # steps, in the order of their lines
        self.has_summary = False
        self.complaints = []
        self.errors_path = errors_path
        self.start = time.monotonic()
        with open(errors_path, "wb") as errors:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if not line.endswith(b"\n"):
                return  # killed within it
            try:
                self.take(json.loads(line))
            except ValueError:
                self.complaints.append(f"printed what is no JSON: {line!r}")

    def take(self, line):
        if "loss" in line:
            expected = max(self.losses) + 1 if self.losses else line["step"]
            if line["step"] != expected:
                self.complaints.append(f"printed step {line['step']} where {expected} comes next")
            self.losses[line["step"]] = line["loss"]
        elif "checkpoint" in line:
            self.checkpoints.append(line["step"])
            # Asked again: with --keep, what it leads to may go between two looks.
            if not any((self.folder / "latest" / "manifest.json").exists() for _ in range(5)):
                self.complaints.append(f"checkpoint {line['step']} was reported but `latest` led to none")
        elif "summary" in line:
            self.has_summary = True

    def has_ended(self):
        return self.process.poll() is not None

    def seconds(self):
        return time.monotonic() - self.start

    def kill(self, number):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def wait(self):
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Fault(f"the run has not ended within {PATIENCE} s") from None
        self.reader.join()

    def status(self):
        return self.process.returncode

    def errors(self):
        return self.errors_path.read_text(errors="replace")


class Lab:
    """The program, and what undisturbed runs of it print."""

    def __init__(self, program, scratch):
        self.program = program
        self.scratch = scratch
        self.undisturbed = {}

    def words(self, configuration):
        return [self.program, "train", MODEL, "--steps", str(STEPS), "--lr", "0.01", "--json", *configuration.split()]

    def reference(self, configuration):
        """The run, which has ended."""
        if configuration not in self.undisturbed:
            job = Job(self.words(configuration), self.scratch, self.scratch / "reference.err")
            job.wait()
            job.duration = job.seconds()
            if job.status() != 0 or len(job.losses) != STEPS:
                sys.exit(f"checkpoint_kills.py: {shlex.join(job.words)}: ended with {job.status()}\n{job.errors()}")
            self.undisturbed[configuration] = job
        return self.undisturbed[configuration]


class Round:
    def __init__(self, lab, kind, place, dice):
        self.lab, self.kind, self.place, self.dice = lab, kind, place, dice
        self.configuration = dice.choice(KINDS[kind])
        self.is_mpi = "mpi" in self.configuration
        self.disk = place / "disk"
        self.folder = self.disk / "run"
        self.keep = dice.choice([0, 0, 1, 2, 3])
        self.every = dice.choice([1, 2, 3, 3, 5, 10])
        self.reported = []  # steps, and in which order
        self.damaged = {}  # step to file, of what a disturbance has damaged
        self.expects_damage_of = None  # what the next run has to tell of
        self.interrupted_at = None  # where the next run has to go on
        self.story = []
        self.disturbances = self.missed = self.restarts = self.destroyed = 0

    # Running

    def words(self):
        words = self.lab.words(self.configuration)
        words += ["--save", str(self.folder), "--save-every", str(self.every), "--resume", "auto"]
        return words + (["--keep", str(self.keep)] if self.keep else [])

    def tell(self, text):
        self.story.append(text)

    def begin(self):
        self.floor = self.whole_step()
        self.tell(f"$ {shlex.join(self.words())}")
        self.restarts += 1
        return Job(self.words(), self.folder, self.place / f"{self.restarts}.err")

    def whole_step(self):
        """That a run has to go on from, at least; None: it may begin anew."""
        known = {*self.reported, latest_of(self.folder)}
        return max((s for s in steps_in(self.folder) & known if s not in self.damaged), default=None)

    def wait_for_moment(self, job):
        dice = self.dice
        before = steps_in(self.folder)
        lines = dice.randrange(1, 60)
        moments = {
            "time": lambda: True,
            "step": lambda: len(job.losses) >= lines,
            "checkpoint": lambda: len(job.checkpoints) >= max(1, lines // self.every),
            "writing": lambda: is_writing(self.folder) and len(job.losses) >= lines,
            "written": lambda: steps_in(self.folder) - before and len(job.losses) >= lines,
        }
        moment = dice.choice(list(moments))
        wait_until(lambda: moments[moment]() or job.has_ended(), PATIENCE)
        if moment == "time":
            wait_until(job.has_ended, dice.uniform(0, 1.1 * self.lab.reference(self.configuration).duration))
        elif dice.random() < 0.5:
            wait_until(job.has_ended, dice.uniform(0, 0.008))

    def tell_disturbance(self, job, what):
        last = max(job.losses, default=None)
        self.tell(
            f"  {job.seconds():.3f} s after its start, step {last} printed last, "
            f"checkpoint {job.checkpoints[-1] if job.checkpoints else None} reported last: {what}"
        )
        if job.has_ended():
            self.missed += 1
        else:
            self.disturbances += 1

    # Checking

    def take(self, job, statuses):
        """What has to be true of each run that has ended. Whether training is complete."""
        job.wait()
        status, errors = job.status(), job.errors()
        self.tell(
            f"  ended with {status}: steps {min(job.losses, default=None)} to {max(job.losses, default=None)}, "
            f"checkpoints {job.checkpoints[:1]} to {job.checkpoints[-1:]}"
            + "".join(f"\n  | {line}" for line in errors.splitlines()[:20])
        )
        for sign in ("terminate called", "AddressSanitizer", "internal", "egmentation", "signal 11", "signal 6 "):
            require(sign not in errors, f"stderr has '{sign}'")
        require(not job.complaints, "; ".join(job.complaints[:3]))
        self.check_losses(job)
        is_complete = status == 0
        require(status in statuses or is_complete, f"status should be one of {statuses} or 0 but is {status}")
        self.check_start(job)
        for step in job.checkpoints:
            self.reported.append(step)
            self.damaged.pop(step, None)
        if is_complete:
            require(latest_of(self.folder) == STEPS, f"status 0, but step {STEPS} is not saved")
            require(not job.losses or job.has_summary, "status 0, but there is no summary")
            require(not is_writing(self.folder), "status 0, but something unfinished is left")
        self.check_folder()
        return is_complete

    def check_losses(self, job):
        right = self.lab.reference(self.configuration).losses
        for step, loss in job.losses.items():
            require(loss == right.get(step), f"the loss of step {step} is {loss} but was {right.get(step)} undisturbed")

    def check_start(self, job):
        """It has gone on from where it should."""
        damage, self.expects_damage_of = self.expects_damage_of, None
        interrupted_at, self.interrupted_at = self.interrupted_at, None
        if not job.losses:
            return
        first = min(job.losses)
        if self.floor is not None:
            require(first >= self.floor, f"begins with step {first}, but checkpoint {self.floor} is whole")
        if interrupted_at is not None:
            require(first == interrupted_at, f"begins with step {first}, but was interrupted behind {interrupted_at}")
        if damage is not None:
            require(first != damage, f"begins with step {first}, of which {self.damaged.get(damage)} is damaged")
            require(f"step-{damage:08}" in job.errors(), f"does not tell that checkpoint {damage} is damaged")

    def check_folder(self):
        if not self.reported:
            return
        last, link = self.reported[-1], self.folder / "latest"
        if not self.keep:
            lost = set(self.reported) - steps_in(self.folder)
            require(not lost, f"checkpoints {sorted(lost)} were reported but are not there")
        # Waits for ranks of a launcher that is gone: with --keep, they may be removing what it leads to.
        has_target = wait_until((link / "manifest.json").exists, 1)
        latest = latest_of(self.folder)
        if latest in self.damaged:
            return
        require(has_target, f"`latest` leads to {latest}, which is no checkpoint")
        require(latest >= last, f"`latest` leads to {latest}, but {last} was reported last")

    def check_nothing_runs(self):
        gone = wait_until(lambda: not processes_of(self.folder), PATIENCE)
        require(gone, f"processes stay behind: {processes_of(self.folder)}")

    # Disturbing: each makes one run and says whether training is complete.

    def kill(self):
        job = self.begin()
        self.wait_for_moment(job)
        self.tell_disturbance(job, "SIGKILL")
        job.kill(signal.SIGKILL)
        return self.take(job, [-signal.SIGKILL])

    def rank(self):
        job = self.begin()
        self.wait_for_moment(job)
        words = self.configuration.split()
        count = int(words[words.index("--devices") + 1])
        # Of all: where one ends while it still starts others, mpirun itself may wait for ever.
        wait_until(lambda: len(ranks_of(self.folder)) == count or job.has_ended(), PATIENCE)
        if ranks := ranks_of(self.folder):
            rank = self.dice.choice(sorted(ranks))
            self.tell_disturbance(job, f"SIGKILL to rank {rank} of {count}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(ranks[rank], signal.SIGKILL)
        is_complete = self.take(job, range(1, 256))
        self.check_nothing_runs()
        if is_complete:
            return True
        require(job.errors(), "ended without a word")
        return False

    def launcher(self):
        job = self.begin()
        self.wait_for_moment(job)
        self.tell_disturbance(job, "SIGKILL to the launcher, not to mpirun and ranks")
        job.kill(signal.SIGKILL)
        is_complete = self.take(job, [-signal.SIGKILL])
        if is_complete or self.dice.random() < 0.5:
            self.check_nothing_runs()
            return is_complete
        job = self.begin()  # others may still be at work
        if is_complete := self.take(job, [2]):
            return True
        require("another run saves there" in job.errors(), "ended with 2, but not because another run saves there")
        self.check_nothing_runs()
        return False

    def interrupt(self):
        job = self.begin()
        self.wait_for_moment(job)
        times = self.dice.choice([1, 1, 1, 2])
        self.tell_disturbance(job, f"SIGINT, {times} times")
        was_running = bool(job.losses)
        job.kill(signal.SIGINT)
        if times == 2:
            time.sleep(self.dice.uniform(0, 0.005))
            job.kill(signal.SIGINT)
        # Before the program is there, nobody catches it.
        is_complete = self.take(job, [130] if was_running else [130, -signal.SIGINT])
        self.check_nothing_runs()
        if job.losses and times == 1:
            done = max(job.losses) + 1
            is_saved = bool(self.reported) and self.reported[-1] == done
            require(is_saved, f"interrupted behind {done} steps, which are not saved")
            self.interrupted_at = done if done < STEPS else None
        return is_complete

    def damage(self):
        job = self.begin()
        self.wait_for_moment(job)
        self.tell_disturbance(job, "SIGKILL to all")
        end_all(self.folder)
        is_complete = self.take(job, [-signal.SIGKILL])
        latest = self.folder / "latest"
        if is_complete or not (latest / "manifest.json").exists():
            return is_complete
        path = self.dice.choice(sorted(latest.resolve().iterdir()))
        size = path.stat().st_size
        if self.kind == "delete":
            path.unlink()
            what = f"rm {path}"
        elif self.kind == "truncate":
            length = self.dice.choice([0, size - 1, self.dice.randrange(size)])
            os.truncate(path, length)
            what = f"truncate -s {length} {path}  # was {size}"
        else:
            place, bit = self.dice.randrange(size), self.dice.randrange(8)
            with open(path, "r+b") as file:
                file.seek(place)
                byte = file.read(1)[0] ^ 1 << bit
                file.seek(place)
                file.write(bytes([byte]))
            what = f"byte {place} of {path} is {byte} now, was {byte ^ 1 << bit}"
        self.tell(f"  {what}")
        step = int(path.parent.name[5:])
        self.damaged[step] = path.name
        # Killed between a checkpoint and the link to it, the run has a later one, from which it goes on.
        self.expects_damage_of = step if step == max(steps_in(self.folder)) else None
        return False

    def begin_anew_if_all_is_damaged(self, job):
        """A run does not choose to throw away what is left of a training; a person does."""
        if job.status() != 2 or job.losses or self.whole_step() is not None or not self.damaged:
            return
        require("step-" in job.errors(), "does not tell which checkpoint is damaged")
        self.tell(f"$ rm -r {self.folder}  # all checkpoints are damaged")
        shutil.rmtree(self.folder)
        self.reported, self.damaged, self.destroyed = [], {}, self.destroyed + 1

    def full(self):
        limit = (
            f"size={4 * self.dice.randrange(20, 220)}k"
            if self.dice.random() < 0.6
            else f"size=64m,nr_inodes={self.dice.randrange(4, 45)}"
        )
        if not self.disk.is_mount():
            mount("-t", "tmpfs", "-o", limit, "tmpfs", self.disk)
            self.tell(f"$ mount -t tmpfs -o {limit} tmpfs {self.disk}")
        job = self.begin()
        if self.dice.random() < 0.3:
            self.wait_for_moment(job)
            self.enlarge(job)
        is_complete = self.take(job, [2])
        self.check_failed_saves(job, is_complete, "No space left on device")
        self.enlarge(job)
        return is_complete

    def enlarge(self, job):
        mount("-o", "remount,size=256m,nr_inodes=100000", self.disk)
        self.tell(f"  {job.seconds():.3f} s: mount -o remount,size=256m,nr_inodes=100000 {self.disk}")

    def readonly(self):
        self.folder.mkdir(exist_ok=True)
        view = self.place / "readonly"
        view.mkdir(exist_ok=True)
        mount("--bind", self.folder, view)
        mount("-o", "remount,bind,ro", view)
        self.tell(f"$ mount --bind {self.folder} {view} && mount -o remount,bind,ro {view}")
        job = self.begin()
        self.wait_for_moment(job)
        mount("--bind", view, self.folder)
        self.tell_disturbance(job, f"mount --bind {view} {self.folder}")
        ends_early = self.dice.random() < 0.4
        if ends_early:
            wait_until(job.has_ended, self.dice.uniform(0, 0.1))
        else:
            job.wait()
            if job.status() == 2 and self.dice.random() < 0.4:
                self.try_readonly()
        unmount(self.folder)
        unmount(view)
        self.tell(f"  {job.seconds():.3f} s: umount -l {self.folder} {view}")
        is_complete = self.take(job, [2])
        self.check_failed_saves(job, is_complete, "Read-only file system")
        return is_complete

    def try_readonly(self):
        words = self.words()
        run = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
        self.tell(f"$ {shlex.join(words)}  # where nothing can be written")
        require(
            run.returncode == 2 and b'"loss"' not in run.stdout and b"Read-only file system" in run.stderr,
            f"should end with 2 and say why, but ended with {run.returncode}: {run.stderr.decode()}",
        )

    def check_failed_saves(self, job, is_complete, why):
        failures = job.errors().count(" is not saved: ")
        self.disturbances += failures > 0 and self.kind == "full"
        if is_complete:
            return
        # The ranks of other processes do not say why.
        told = why in job.errors() or (self.is_mpi and "another rank cannot write" in job.errors())
        require(told, f"ended with 2, but does not say '{why}'")
        require(failures or not job.losses, "ended with 2, but no line tells of a checkpoint that is not saved")

    # All of it

    def disturb(self):
        is_complete = getattr(self, "damage" if self.kind in DAMAGES else self.kind)()
        if self.kind not in DAMAGES or is_complete:
            return is_complete
        job = self.begin()  # tells of the damage; complete, or disturbed again behind it
        if self.take(job, [2]):
            return True
        self.begin_anew_if_all_is_damaged(job)
        require(not self.reported, "ended with 2, but not all checkpoints are damaged")
        return False

    def run(self):
        self.disk.mkdir(parents=True)
        try:
            for _ in range(self.dice.choice([1, 1, 2, 3])):
                if self.disturb():
                    return
            job = self.begin()
            require(self.take(job, [0]), "does not end")
        finally:
            self.clean_up()

    def clean_up(self):
        end_all(self.folder)
        unmount(self.folder)
        unmount(self.place / "readonly")
        with contextlib.suppress(OSError):
            shutil.copytree(self.disk, self.place / "left", symlinks=True)
        unmount(self.disk)


def deal(kinds, rounds, seed):
    """Every kind comes before any comes again."""
    dice = random.Random(seed)
    out = []
    while len(out) < rounds:
        out += dice.sample(kinds, len(kinds))
    return out[:rounds]


def attack(lab, kinds, options):
    """How many rounds had a fault."""
    counts = {kind: collections.Counter() for kind in kinds}
    for number, kind in enumerate(deal(kinds, options.rounds, options.seed)):
        if options.only not in (None, number):
            continue
        this = Round(lab, kind, lab.scratch / f"{number}", random.Random(f"{options.seed} {number}"))
        count, start = counts[kind], time.monotonic()
        count["rounds"] += 1
        try:
            this.run()
            shutil.rmtree(this.place)
            if options.tell:
                print(f"round {number} ({kind}):", *this.story, sep="\n", flush=True)
        except Fault as fault:
            count["faults"] += 1
            print(f"checkpoint_kills.py: round {number} ({kind}): {fault}")
            print(*this.story, sep="\n")
            print(f"what is left: {this.place}/left; about the same again: {sys.argv[0]} {options.program} "
                  f"--rounds {options.rounds} --seed {options.seed} --only {number}", flush=True)
        for what in ("disturbances", "missed", "restarts", "destroyed"):
            count[what] += getattr(this, what)
        count["seconds"] += time.monotonic() - start
    for kind, count in counts.items():
        print(f"{kind}: {count['rounds']} rounds in {count['seconds']:.1f} s, "
              f"{count['disturbances']} disturbances, {count['missed']} too late, "
              f"{count['restarts']} runs, {count['destroyed']} began anew, {count['faults']} faults")
    return sum(count["faults"] for count in counts.values())


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n")[2][7:])
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--only", type=int)
    parser.add_argument("--tell", action="store_true", help="what happens in rounds without faults, too")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="checkpoint_kills."))
    # What a killed MPI job leaves behind goes with the rest.
    os.environ["TMPDIR"] = os.environ["OMPI_MCA_btl_vader_backing_directory"] = str(scratch)
    left_out = set()
    if not can_mount(scratch):
        print("nothing can be mounted here; left out:", *NEED_MOUNT)
        left_out.update(NEED_MOUNT)
    faults = attack(Lab(os.path.abspath(options.program), scratch), [k for k in KINDS if k not in left_out], options)
    if not faults:
        shutil.rmtree(scratch)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

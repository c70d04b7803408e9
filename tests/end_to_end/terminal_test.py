"""What stands on a terminal while a command works, and what Ctrl-C leaves: terminal_test.py TEST PROGRAM

Times are limits that only a program which hangs reaches: machines may be loaded. That something ends soon is seen in
what it would have gone on with, which takes far longer.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

PATIENCE = 240  # seconds, of anything that has to come
# Many minutes.
COUNTS = ",".join(str(n) for n in range(1, 1025))
LONG_SEARCH = ["plan", "llama2-70b", "--cluster", "a100-80g", "--global-batch", "4096", "--over", COUNTS]
LONG_TRAINING = ["train", "ffn", "--devices", "2", "--steps", "1000000000", "--log-every", "1000000000"]
ERASING = b"\r\x1b[K"

program = os.path.realpath(sys.argv[2])


def require(holds: bool, what: object) -> None:
    if not holds:
        sys.exit(f"terminal_test: {what}")


class OnTerminal:
    """The program, whose standard streams are a terminal."""

    def __init__(self, words: list[str], columns: int = 0, **variables: str):
        environment = {**os.environ, "TERM": "xterm", **variables}
        self.shown = b""
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            if columns:
                fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
            os.execve(program, [program, *words], environment)

    def read(self, seconds: float) -> bool:
        """More of what is shown, if any comes; whether there may be more."""
        if not select.select([self.terminal], [], [], seconds)[0]:
            return True
        try:
            more = os.read(self.terminal, 1 << 16)
        except OSError:  # nobody writes any more
            return False
        self.shown += more
        return bool(more)

    def wait_for(self, pattern: bytes) -> None:
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, self.shown):
            require(self.read(0.1), f"it ended before {pattern!r}: {self.shown!r}")
            require(time.monotonic() < end, f"there is no {pattern!r} in {self.shown!r}")

    def press_ctrl_c(self) -> None:
        os.write(self.terminal, b"\x03")

    def status(self) -> int:
        """Of its end, for which it has the same time."""
        end = time.monotonic() + PATIENCE
        while self.read(0.1):
            require(time.monotonic() < end, f"it does not end: {self.shown!r}")
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def last_line(run: OnTerminal) -> bytes:
    return run.shown.replace(b"\r\n", b"\n").rstrip(b"\n").rpartition(b"\n")[2].rpartition(ERASING)[2]


def shows_a_search() -> None:
    run = OnTerminal(LONG_SEARCH, NO_COLOR="1")
    run.wait_for(rb"\rplan llama2-70b, \d+ s, about [^\r:]* left: numbers of devices \d+ of 1024, now \d+")
    seen = len(re.findall(rb"\rplan llama2-70b", run.shown))
    run.wait_for(rb"(\rplan llama2-70b[^\r]*){%d}" % (seen + 2))  # in the same place
    require(b"\n" not in run.shown, run.shown)
    run.press_ctrl_c()
    require(run.status() == 130, run.shown)
    require(last_line(run) == b"shardwright: interrupted: nothing was written", run.shown)
    # Neither colours nor anything else than what takes a line away.
    require(not re.search(rb"\x1b(?!\[K)", run.shown), run.shown)


def shows_a_training() -> None:
    run = OnTerminal(LONG_TRAINING)
    run.wait_for(rb"\rtrain ffn, \d+ s, about [^\r:]* left: step \d+ of 1000000000, loss ")
    run.press_ctrl_c()
    require(run.status() == 130, run.shown)
    line = last_line(run)
    require(re.fullmatch(rb"shardwright: interrupted: stopped after step \d+; nothing is saved", line), run.shown)


def is_quiet_on_a_dumb_terminal() -> None:
    run = OnTerminal(LONG_SEARCH, TERM="dumb")
    end = time.monotonic() + 4
    while time.monotonic() < end:
        run.read(0.1)
    require(run.shown == b"", run.shown)
    run.press_ctrl_c()
    require(run.status() == 130, run.shown)


def is_quiet_in_a_pipe() -> None:
    for words in (LONG_SEARCH, LONG_TRAINING):
        run = subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(4)
        require(run.poll() is None, "it was to take longer")
        run.send_signal(signal.SIGINT)
        errors = run.communicate(timeout=PATIENCE)[1]
        require(run.returncode == 130, run.returncode)
        require(b"\r" not in errors and b"\x1b" not in errors and b", 3 s" not in errors, errors)


def tells_what_was_saved() -> None:
    """Of a training with checkpoints the last one, of which a search of it says that it is whole."""
    with tempfile.TemporaryDirectory() as scratch:
        run = OnTerminal([*LONG_TRAINING, "--save", f"{scratch}/run", "--save-every", "1"])
        run.wait_for(rb"saved \S+step-\d+")
        run.press_ctrl_c()
        require(run.status() == 130, run.shown)
        said = re.fullmatch(rb"shardwright: interrupted: stopped after step (\d+); saved in (\S+)", last_line(run))
        require(said is not None, run.shown)
        folder = said.group(2).decode()
        require(folder.endswith(f"step-{int(said.group(1)) + 1:08}"), folder)
        subprocess.run([program, "checkpoint", "verify", folder], check=True, stdout=subprocess.DEVNULL)
        require(not [name for name in os.listdir(f"{scratch}/run") if "unfinished" in name], os.listdir(f"{scratch}/run"))


def fits_a_screen() -> None:
    """Summary and table of a plan, lines that the terminal wraps among them; in a pipe all of it is there."""
    large = ["plan", "llama2-13b", "--cluster", "a100-80g:16", "--global-batch", "64"]
    for words, columns in ((large, 100), (["plan", "resnet50", "--devices", "8"], 100), (large, 80)):
        run = OnTerminal(words, columns=columns)
        require(run.status() == 0, run.shown)
        lines = [line.rpartition(ERASING)[2] for line in run.shown.split(b"\r\n")[:-1]]
        rows = sum(max(1, -(-len(line) // columns)) for line in lines)
        require(12 < rows <= 45, (words, columns, rows))
        whole = subprocess.run([program, *words], check=True, capture_output=True).stdout.splitlines()
        require(len(whole) >= len(lines), whole)
        about = [line.partition(b":")[0] for line in whole if re.match(rb"[a-z ]+: ", line)]
        require(len(about) > 7 and about == [line.partition(b":")[0] for line in lines if re.match(rb"[a-z ]+: ", line)], lines)
        require(any(b"network: " in line and b" a step" in line for line in whole), whole)


globals()[sys.argv[1]]()

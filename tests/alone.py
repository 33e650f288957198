"""Attempts that may crash, never end or eat memory: each in a process of its own."""

import os
import resource
import signal
import sys
import traceback

FAULTS = {"raw", "endless", "aborted"}
SECONDS, BYTES = 30, 8 << 30  # of a processor, and of address space


def outcome(attempt, said):
    """What `attempt()` comes to: "taken" (it returns True), "refused" (False), or a fault.

    That is "raw" (it raises), "endless" (more than SECONDS) or "aborted" (by a signal). What it
    prints goes into the file `said`.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 4
        try:
            with open(said, "w") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            sys.stdout = sys.stderr = open(2, "w", closefd=False)
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
            code = 0 if attempt() else 3
        except BaseException:  # a child of tests must not run the other tests
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return "endless" if os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL) else "aborted"
    return {0: "taken", 3: "refused"}.get(os.WEXITSTATUS(status), "raw")

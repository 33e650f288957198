"""Kernels of notebooks that begin with what most of them import: forked, not started anew.

    python tools/kernels.py serve SOCKET              import, then fork a kernel for whoever asks
    python tools/kernels.py start SOCKET -f FILE ...  ask, and live as long as the kernel does

The tests run every notebook, and two seconds of each would be imports of other people's packages.
A kernel of these differs from a new one in nothing but `sys.modules`.
"""

import builtins
import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
from types import SimpleNamespace

# Nothing of hdp_nb; and no pyplot, which would ask for its backend too early.
MODULES = ["numba", "scipy.stats", "scipy.special", "scipy.optimize", "scipy.integrate"]
MODULES += ["scipy.sparse", "sklearn.utils.validation", "sklearn.base", "sklearn.metrics"]
MODULES += ["matplotlib.figure", "matplotlib.backends.backend_agg", "ipykernel.kernelapp"]
MODULES += ["ipykernel.ipkernel", "ipykernel.zmqshell"]


def serve(path):
    sys.path.pop(0)  # this folder
    # What a new kernel says before it imports matplotlib, which asks only then.
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    # By this pandas, which others import, tells a notebook, with wider tables, from a terminal.
    builtins.get_ipython = lambda: SimpleNamespace(kernel=None)
    for module in MODULES:
        importlib.import_module(module)
    del builtins.get_ipython
    gc.set_threshold(100_000, 50, 100)  # as in tests/conftest.py
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    print("ready", flush=True)
    while True:
        asking, _ = server.accept()
        ask = json.loads(asking.makefile().readline())
        pid = os.fork()
        if pid == 0:
            server.close()
            be_a_kernel(asking, **ask)
        asking.sendall(f"{pid}\n".encode())
        asking.close()


def be_a_kernel(asking, arguments, folder, environment):
    "In a process of its own; it ends when whoever asked for it does."
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    os.setsid()
    os.dup2(2, 1)  # nobody reads what the server says
    sys.argv = ["ipykernel_launcher", *arguments]

    def watch():
        asking.recv(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    from ipykernel.kernelapp import launch_new_instance

    try:
        launch_new_instance()
    finally:
        sys.stdout.flush()
        os._exit(0)


def start(path, *arguments):
    asking = socket.socket(socket.AF_UNIX)
    asking.connect(path)
    ask = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    asking.sendall((json.dumps(ask) + "\n").encode())
    pid = int(asking.makefile().readline())
    signal.signal(signal.SIGINT, lambda *_: os.kill(pid, signal.SIGINT))
    while asking.recv(1):
        pass


if __name__ == "__main__":
    {"serve": serve, "start": start}[sys.argv[1]](*sys.argv[2:])

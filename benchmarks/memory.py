"""Peak memory, measured in processes of their own."""

import json
import pathlib
import re
import subprocess
import sys


def peak_mb():
    """The process's own peak so far; `resource.getrusage` would inherit its parent's."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def in_fresh_process(module, function, *arguments):
    """What `benchmarks.<module>.<function>(*arguments)` returns in a new process."""
    code = (
        "import importlib, json, sys\n"
        "module, function, arguments = json.loads(sys.argv[1])\n"
        "found = getattr(importlib.import_module('benchmarks.' + module), function)\n"
        "print(json.dumps(found(*arguments)))"
    )
    request = json.dumps([module, function, arguments])
    done = subprocess.run(
        [sys.executable, "-c", code, request], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])

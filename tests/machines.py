"""The numeric and the export tests, as other machines would run them.

`make test-machines` runs every machine below; `python tests/machines.py one_core sse42`
those named, and `--tests tests/layers` other tests than the cheap ones. What this system
does not allow (a namespace without network, another user) is left out, with the reason.
"""

import argparse
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[1]
TESTS = [f"tests/{room}" for room in ("noise", "relaxations", "estimators", "objectives", "export")]
LOCALE = "tr_TR"
# Everything but the loopback is out of reach: servers of the tests listen there.
WITHOUT_NETWORK = [
    "unshare",
    "--map-root-user",
    "--net",
    "sh",
    "-c",
    'ip link set lo up && exec "$@"',
    "sh",
]


def instructions(onednn, xla):
    """The two libraries that choose kernels by the processor, held to an older one."""
    return {"ONEDNN_MAX_CPU_ISA": onednn, "XLA_FLAGS": f"--xla_cpu_max_isa={xla}"}


# Plain TensorFlow fails there, with none of this package. The product of two bfloat16
# matrices (`tf.matmul` alone) ends the process on a processor held to less than it has,
# because TensorFlow asks the processor and not oneDNN; and without F16C, which came after
# SSE4.2, XLA cannot link the conversions of float16.
NO_BFLOAT16_PRODUCTS = ["-k", "not mixed_bfloat16"]
NO_HALF = ["-k", "not float16"]

# By name: what is set in the environment (None: what is taken out), what runs pytest, and
# what else it is told.
MACHINES = {
    "best": ({}, []),
    # SSE41 is the lowest that oneDNN knows.
    "sse42": (instructions("SSE41", "SSE4_2"), [], NO_HALF),
    "avx2": (instructions("AVX2", "AVX2"), [], NO_BFLOAT16_PRODUCTS),
    "no_onednn": ({"TF_ENABLE_ONEDNN_OPTS": "0"}, []),
    "one_core": ({}, ["taskset", "--cpu-list", "0"]),
    "ascii": (
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TZ": "Pacific/Kiritimati"},
        [],
    ),
    "turkish": ({"LC_ALL": f"{LOCALE}.UTF-8", "TZ": "America/St_Johns"}, []),
    "no_data": ({"TFDS_DATA_DIR": None}, []),
    "no_network": ({}, WITHOUT_NETWORK),
    "not_root": ({}, ["unshare", "--user", "--map-user=1000", "--map-group=1000"]),
}


def obstacle(prefix):
    """Why a command cannot be run here, or None."""
    if not prefix:
        return None
    if not shutil.which(prefix[0]):
        return f"there is no {prefix[0]}"
    done = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
    return (done.stderr.strip() or "refused") if done.returncode else None


def environment(changes, home):
    """This process' environment with the changes, and nothing of its home folder."""
    variables = {**os.environ, "HOME": home, "TMPDIR": home, "PYTHONDONTWRITEBYTECODE": "1"}
    for name, value in changes.items():
        variables.pop(name, None)
        if value is not None:
            variables[name] = value
    if variables.get("LC_ALL", "").startswith(LOCALE):
        target = f"{home}/{variables['LC_ALL']}"
        command = ["localedef", "-i", LOCALE, "-f", "UTF-8", target]
        if subprocess.run(command, capture_output=True, check=False).returncode > 1:
            return None
        variables["LOCPATH"] = home
    return variables


def run(name, tests):
    """Runs the tests on a machine: whether they passed, and one line about it."""
    changes, prefix, *selection = MACHINES[name]
    reason = obstacle(prefix)
    with tempfile.TemporaryDirectory() as home:
        os.chmod(home, 0o777)
        variables = environment(changes, home)
        if variables is None:
            reason = f"the sources of the locale {LOCALE} are not installed"
        if reason:
            return None, f"left out: {reason}"
        command = [
            *prefix,
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "not slow",
            "-p",
            "no:cacheprovider",
            *itertools.chain(*selection),
            *tests,
        ]
        start = time.monotonic()
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=variables,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
    if done.returncode:
        print(done.stdout, file=sys.stderr)
    last = done.stdout.strip().splitlines()[-1].split(" in ")[0]
    return not done.returncode, f"{last[:80]} in {time.monotonic() - start:.0f} s"


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("machines", nargs="*", metavar="machine", help=", ".join(MACHINES))
    options.add_argument("--tests", nargs="+", default=TESTS, help="folders or files")
    settings = options.parse_args()
    unknown = set(settings.machines) - set(MACHINES)
    if unknown:
        options.error(f"no such machine: {', '.join(sorted(unknown))}")
    failed = []
    for name in settings.machines or MACHINES:
        passed, line = run(name, settings.tests)
        print(f"{name:12}{line}", flush=True)
        if passed is False:
            failed.append(name)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()

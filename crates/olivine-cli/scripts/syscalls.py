#!/usr/bin/env python3
"""Which system calls Olivine makes: `trace` finds out, `try` runs Olivine with no others.

    syscalls.py trace TOOL...   traces the sessions below with each tool, by strace; writes
                                docs/seccomp.json
    syscalls.py try TOOL        runs the same sessions under that profile: another call ends the
                                process. `--without NAME` before it leaves a call out

A session is a number of commands that run beside each other; each must end with success.
"""

import argparse
import collections
import ctypes
import json
import os
import pathlib
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile

PROFILE = pathlib.Path(__file__).parents[3] / "docs/seccomp.json"
# Of each session; a busy machine takes a tenth of it.
LIMIT_S = 120
SEND = "pub {} --subscribers 1 --size 32 --count"
SESSIONS = {
    "one message": ["sub shm://first --once", "pub shm://first --subscribers 1 hello"],
    "spinning": ["sub shm://spin?wait=spin --once", SEND.format("shm://spin?wait=spin") + " 10000"],
    "sleeping": [
        "sub shm://park?wait=park&capacity=4KiB --once --out none",
        SEND.format("shm://park?wait=park&capacity=4KiB") + " 200 --rate 1K",
    ],
    "back-pressure": [
        "sub shm://full?capacity=4KiB --once --verify",
        SEND.format("shm://full?capacity=4KiB") + " 100K",
    ],
    "durable": ["sub shm://kept?name=a --once", SEND.format("shm://kept") + " 100"],
    "sealed memory": [
        "sub shm+fd://{place}/socket --once",
        SEND.format("shm+fd://{place}/socket") + " 100",
    ],
    "tcp": [
        "sub tcp://127.0.0.1:{port}/t --once",
        SEND.format("tcp://127.0.0.1:{port}/t") + " 1000",
    ],
    "recording": [
        "record shm://disk {place}/a.olv",
        SEND.format("shm://disk") + " 1000",
    ],
    "replaying": [
        "sub shm://again --once --out none",
        "replay {place}/a.olv shm://again --subscribers 1",
    ],
    "journal": ["journal info {place}/a.olv"],
    "bridge": [
        "bridge shm://here file://{place}/b.olv",
        SEND.format("shm://here") + " 1000",
    ],
    "looking": ["ls", "top --once", "metrics --once", "doctor --json"],
    "tapping": [
        "tap shm://tapped --count 5",
        "sub shm://tapped --once --out none",
        SEND.format("shm://tapped") + " 300 --rate 500",
    ],
    "page": ["serve --snapshot {place}/page.html --seconds 1"],
    "removing": ["rm --force shm://kept", "gc"],
}
# Exit codes besides 0 of commands that judge: of what they judge, not of a refused call.
JUDGES = {"doctor": (1,)}


def numbers():
    """The number of each system call on this machine, from the headers of its kernel."""
    source = "#include <asm/unistd.h>\n"
    said = subprocess.run(
        ["cc", "-E", "-dM", "-"], input=source, capture_output=True, text=True, check=True
    )
    found = re.findall(r"#define __NR_(\w+) (\d+)$", said.stdout, re.MULTILINE)
    return {name: int(number) for name, number in found}


def only(names, command):
    """Becomes the command, which ends at every system call but these."""
    load, equal, give, end, allow = 0x20, 0x15, 0x06, 0x80000000, 0x7FFF0000
    known = numbers()
    program = [(load, 0, 0, 0)]  # The number of the call.
    for name in names:
        if name in known:
            program += [(equal, 0, 1, known[name]), (give, 0, 0, allow)]
    program.append((give, 0, 0, end))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    whole = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    no_new_privileges, filter_mode = 38, 2
    if prctl(no_new_privileges, 1, 0, 0, 0) or prctl(22, filter_mode, whole, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot set the filter")
    os.execv(command[0], command)


def run(tool, before=()):
    """Runs all sessions; returns how many commands. `before` starts each command."""
    place = tempfile.mkdtemp(prefix="olivine-syscalls-", dir="/dev/shm")
    port = 20000 + os.getpid() % 10000
    count = 0
    try:
        environment = {**os.environ, "OLIVINE_DIR": place, "NO_COLOR": "1"}
        for session, commands in SESSIONS.items():
            running = []
            for command in commands:
                words = command.replace("{place}", place).replace("{port}", str(port)).split()
                running.append(
                    subprocess.Popen(
                        [*before, tool, *words],
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.PIPE,
                    )
                )
            for command, process in zip(commands, running):
                said = process.communicate(timeout=LIMIT_S)[1].decode(errors="replace")
                if process.returncode not in (0, *JUDGES.get(command.split()[0], ())):
                    for other in running:
                        other.kill()
                    sys.exit(f"{session}: {command}: exit code {process.returncode}: {said}")
                count += 1
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return count


def trace(tools):
    names = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        before = ["strace", "-ff", "-qq", "-e", "signal=none", "-o", f"{folder}/trace"]
        for tool in tools:
            run(tool, before)
        for file in pathlib.Path(folder).iterdir():
            names.update(re.findall(r"^(\w+)\(", file.read_text(errors="replace"), re.MULTILINE))
    profile = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": [{"names": sorted(names), "action": "SCMP_ACT_ALLOW"}],
    }
    PROFILE.write_text(json.dumps(profile, indent=2) + "\n")
    print(f"{len(names)} system calls: {PROFILE}")


def allowed(without):
    """The calls of the profile, but for one."""
    profile = json.loads(PROFILE.read_text())
    names = [name for rule in profile["syscalls"] for name in rule["names"]]
    if without and without not in names:
        sys.exit(f"the profile has no {without}")
    return [name for name in names if name != without]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without", default="", metavar="NAME")
    # `exec` is what `try` runs for each command.
    parser.add_argument("what", choices=["trace", "try", "exec"])
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="TOOL")
    asked = parser.parse_args()
    names = [] if asked.what == "trace" else allowed(asked.without)
    if asked.what == "trace":
        trace([os.path.abspath(tool) for tool in asked.words])
    elif platform.machine() != "x86_64":
        sys.exit(f"the profile is of x86-64, not of {platform.machine()}")
    elif asked.what == "exec":
        only(names, asked.words)
    else:
        before = [sys.executable, __file__, "--without", asked.without, "exec"]
        count = run(os.path.abspath(asked.words[0]), before)
        print(f"{count} commands ran under {len(names)} system calls")


main()

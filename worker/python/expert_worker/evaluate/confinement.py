"""Limits of the scoring process, without root: files by Landlock, sockets by seccomp, resources by rlimits.
What older versions of Landlock do not cover, seccomp forbids.

Landlock and seccomp exist on Linux only. What is not in force is named: `doctor`, the events and
`evaluation.json` say it. Run as a module, it confines itself and prints what was in force, for `doctor`.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import shutil
import struct
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The scoring process starts without pydantic.
    from pydantic import JsonValue

# Landlock's system calls have the same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_READ = _EXECUTE | _READ_FILE | _READ_DIR
# Bits of the file rights that each version of Landlock adds to those before it.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_TRUNCATE, _DEVICE_CONTROL = 1 << 14, 1 << 15
_RIGHTS_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL
_BIND_TCP, _CONNECT_TCP = 1, 2
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2
_TRUNCATE_SINCE, _NETWORK_SINCE, _SCOPES_SINCE = 3, 4, 6

_NO_NEW_PRIVILEGES = 38
_SET_FILTER, _ALL_THREADS = 1, 1
_ALLOW, _DENY = 0x7FFF0000, 0x00050000
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_OTHER_NUMBERS = 0x40000000
"""From here on, numbers of x86-64 are those of its x32 mode: the same calls once more."""

# Newer calls have the same number everywhere. io_uring opens sockets without the call `socket`.
_PIDFD_SEND_SIGNAL, _IO_URING_SETUP, _OPENAT2 = 424, 425, 437
_FCHMODAT2, _SETXATTRAT, _REMOVEXATTRAT, _FILE_SETATTR = 452, 463, 466, 469
_LOCAL, _STREAM, _SOCKET_TYPES = 1, 1, 0xF
# O_TRUNC with an access mode that is not for writing empties a file that may only be read.
_TRUNCATING, _OPEN_MODES = (0x200, 0x203), 0x203
# Of fcntl and ioctl: who gets the signals of a file.
_SET_OWNER, _SET_OWNER_BY_IOCTL = (8, 15), (0x8901, 0x8902)
# What programs and libraries read besides Python's own folders. No user's file is in any of these.
_SYSTEM = (
    "/usr",
    "/bin",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/ssl/openssl.cnf",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
    "/dev/urandom",
    "/dev/random",
    "/dev/zero",
)
_WRITABLE_DEVICES = ("/dev/null",)
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class _Architecture:
    audit: int
    seccomp: int
    calls: Mapping[str, int]


_ARCHITECTURES = {
    "x86_64": _Architecture(
        0xC000003E,
        317,
        {
            "open": 2,
            "ioctl": 16,
            "socket": 41,
            "connect": 42,
            "bind": 49,
            "socketpair": 53,
            "kill": 62,
            "fcntl": 72,
            "truncate": 76,
            "chmod": 90,
            "fchmod": 91,
            "chown": 92,
            "fchown": 93,
            "lchown": 94,
            "ptrace": 101,
            "setsid": 112,
            "rt_sigqueueinfo": 129,
            "utime": 132,
            "setpriority": 141,
            "sched_setparam": 142,
            "sched_setscheduler": 144,
            "setxattr": 188,
            "lsetxattr": 189,
            "fsetxattr": 190,
            "removexattr": 197,
            "lremovexattr": 198,
            "fremovexattr": 199,
            "tkill": 200,
            "sched_setaffinity": 203,
            "tgkill": 234,
            "utimes": 235,
            "ioprio_set": 251,
            "openat": 257,
            "fchownat": 260,
            "futimesat": 261,
            "fchmodat": 268,
            "utimensat": 280,
            "rt_tgsigqueueinfo": 297,
            "prlimit64": 302,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "sched_setattr": 314,
        },
    ),
    "aarch64": _Architecture(
        0xC00000B7,
        277,
        {
            "setxattr": 5,
            "lsetxattr": 6,
            "fsetxattr": 7,
            "removexattr": 14,
            "lremovexattr": 15,
            "fremovexattr": 16,
            "fcntl": 25,
            "ioctl": 29,
            "ioprio_set": 30,
            "truncate": 45,
            "fchmod": 52,
            "fchmodat": 53,
            "fchownat": 54,
            "fchown": 55,
            "openat": 56,
            "utimensat": 88,
            "ptrace": 117,
            "sched_setparam": 118,
            "sched_setscheduler": 119,
            "sched_setaffinity": 122,
            "kill": 129,
            "tkill": 130,
            "tgkill": 131,
            "rt_sigqueueinfo": 138,
            "setpriority": 140,
            "setsid": 157,
            "socket": 198,
            "socketpair": 199,
            "bind": 200,
            "connect": 203,
            "rt_tgsigqueueinfo": 240,
            "prlimit64": 261,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "sched_setattr": 274,
        },
    ),
}


# Sockets, and what reaches other processes of the same user.
_FORBIDDEN = (
    "socket",
    "connect",
    "bind",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "setsid",
    "setpriority",
    "ioprio_set",
    "sched_setparam",
    "sched_setscheduler",
    "sched_setattr",
    "sched_setaffinity",
)
# Landlock lets a process change rights, owner, times and attributes of any file of its user. Some of these
# calls exist on one architecture only.
_FORBIDDEN_WHERE_THERE_IS = (
    "chmod",
    "fchmod",
    "fchmodat",
    "chown",
    "fchown",
    "lchown",
    "fchownat",
    "utime",
    "utimes",
    "futimesat",
    "utimensat",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
)


@dataclass(frozen=True)
class _If:
    """A call is allowed if an argument has one of these values, or `otherwise` if it has none of them. Only
    the bits of `mask` count, of the 32 that the kernel reads of these arguments."""

    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF
    otherwise: bool = False

    def steps(self, denied: int) -> list[tuple[int, int, int, int]]:
        """Continue behind their end, or deny."""
        read = [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * self.argument), (_AND, 0, 0, self.mask)]
        deny = (_RETURN, 0, 0, denied)
        if self.otherwise:
            return [*read, *(step for value in self.values for step in ((_EQUAL, 0, 1, value), deny))]
        count = len(self.values)
        return [*read, *((_EQUAL, count - at, 0, value) for at, value in enumerate(self.values)), deny]


# By the numbers of calls. Without conditions a call is forbidden.
_Rules = Mapping[int, Sequence[_If]]


@dataclass(frozen=True)
class Confinement:
    """What was in force; None where nothing was, and then `missing` says why."""

    files: str | None
    network: str | None
    missing: tuple[str, ...] = ()

    def document(self) -> dict[str, JsonValue]:
        return {"files": self.files, "network": self.network, "missing": list(self.missing)}


def confine(folder: Path) -> Confinement:
    """Leaves this process `folder`, and what its libraries read. To be called before any other thread exists:
    Landlock holds for the calling thread and those that it starts.
    """
    if sys.platform != "linux":
        reason = f"{platform.system()} offers no way to confine a process without further rights"
        return Confinement(None, None, (reason,))
    missing: list[str] = []
    network = files = None
    version = 0
    with suppress(OSError):
        version = _landlock_version()
    try:
        _forbid_new_privileges()
        _filter(_rules(version))
        network = "seccomp"
    except OSError as error:
        missing.append(f"network and other processes: seccomp is not available ({error.strerror})")
        if 0 < version < _TRUNCATE_SINCE:
            missing.append(f"files: Landlock {version} does not keep them from being emptied")
    try:
        files = f"Landlock {_landlock(folder)}"
    except OSError as error:
        missing.append(f"files: Landlock is not available ({error.strerror})")
    return Confinement(files, network, tuple(missing))


def _forbid_new_privileges() -> None:
    _checked(_libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))


def _landlock_version() -> int:
    return _call(_CREATE_RULESET, None, 0, _VERSION)


def _landlock(folder: Path) -> int:
    version = _landlock_version()
    files = (1 << _FILE_RIGHTS[min(version, max(_FILE_RIGHTS))]) - 1
    attributes = struct.pack("=Q", files)
    if version >= _NETWORK_SINCE:
        attributes += struct.pack("=Q", _BIND_TCP | _CONNECT_TCP)
    if version >= _SCOPES_SINCE:
        attributes += struct.pack("=Q", _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS)
    ruleset = _call(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        _allow(ruleset, [folder], files & ~_EXECUTE)
        _allow(ruleset, _libraries(), _READ)
        _allow(ruleset, map(Path, _WRITABLE_DEVICES), (_READ_FILE | _WRITE_FILE | _TRUNCATE) & files)
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return version


def _allow(ruleset: int, paths: Iterable[Path], rights: int) -> None:
    if sys.platform != "linux":
        raise AssertionError("only for Linux")
    for path in paths:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            here = rights if path.is_dir() else rights & _RIGHTS_OF_A_FILE
            _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", here, place), 0)
        finally:
            os.close(place)


def _libraries() -> list[Path]:
    """Python's own folders and those that it imports from, and the system's libraries."""
    python = {sys.executable, str(Path(sys.executable).resolve())}
    folders = {*sys.path, *sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, sys.exec_prefix}
    folders |= set(os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    named = [Path(name) for name in sorted({*_SYSTEM, *python, *folders}) if name]
    return [*(path for path in named if path != Path(path.root)), *_compiler()]


def _compiler() -> list[Path]:
    """`tsc`, its package and the `node` that runs it, which many have in their home."""
    programs = [Path(found).resolve() for name in ("tsc", "node") if (found := shutil.which(name))]
    packages = {
        parent
        for program in programs
        for parent in program.parents
        if (parent.parent.name, parent.name) == ("node_modules", "typescript")
    }
    return [*programs, *packages]


def _rules(landlock: int) -> _Rules:
    """With what this version of Landlock leaves open; 0 is none."""
    calls = _architecture().calls
    rules: dict[int, tuple[_If, ...]] = {calls[name]: () for name in _FORBIDDEN}
    rules |= {calls[name]: () for name in _FORBIDDEN_WHERE_THERE_IS if name in calls}
    rules |= dict.fromkeys((_FCHMODAT2, _SETXATTRAT, _REMOVEXATTRAT, _FILE_SETATTR), ())
    rules |= {
        _IO_URING_SETUP: (),
        # Connected streams alone: a datagram may be sent to any socket.
        calls["socketpair"]: (_If(0, (_LOCAL,)), _If(1, (_STREAM,), _SOCKET_TYPES)),
        # 0 is the calling process.
        calls["prlimit64"]: (_If(0, (0,)),),
    }
    if landlock < _TRUNCATE_SINCE:
        rules |= {calls["truncate"]: (), _OPENAT2: ()}
        for name, flags in (("open", 1), ("openat", 2)):
            if name in calls:
                rules[calls[name]] = (_If(flags, _TRUNCATING, _OPEN_MODES, otherwise=True),)
    if landlock < _SCOPES_SINCE:
        # A filter cannot know the ids of what starts later; the parent signals that (`signals`).
        to_itself = (_If(0, (os.getpid(),)),)
        rules |= dict.fromkeys((calls["kill"], calls["tgkill"]), to_itself)
        rules |= dict.fromkeys((calls["tkill"], calls["rt_sigqueueinfo"], calls["rt_tgsigqueueinfo"]), ())
        rules |= {
            _PIDFD_SEND_SIGNAL: (),
            calls["fcntl"]: (_If(1, _SET_OWNER, otherwise=True),),
            calls["ioctl"]: (_If(1, _SET_OWNER_BY_IOCTL, otherwise=True),),
        }
    return rules


def _filter(rules: _Rules, answer: int = errno.EACCES) -> None:
    """Answers what the rules forbid, and all calls of other architectures, with an error in every thread."""
    architecture = _architecture()
    denied = _DENY | answer
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, architecture.audit),
        (_RETURN, 0, 0, denied),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, _OTHER_NUMBERS),
        (_RETURN, 0, 0, denied),
    ]
    for number, conditions in rules.items():
        block = [step for condition in conditions for step in condition.steps(denied)]
        block.append((_RETURN, 0, 0, _ALLOW if conditions else denied))
        steps += [(_EQUAL, 0, len(block), number), *block]
    steps.append((_RETURN, 0, 0, _ALLOW))
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    header = struct.pack("@HP", len(steps), ctypes.addressof(program))
    _call(architecture.seccomp, _SET_FILTER, _ALL_THREADS, header)


def _architecture() -> _Architecture:
    try:
        return _ARCHITECTURES[platform.machine()]
    except KeyError:
        raise OSError(errno.ENOSYS, f"unknown processor {platform.machine()}") from None


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: int | bytes | None) -> int:
    known = [ctypes.c_long(it) if isinstance(it, int) else ctypes.c_char_p(it) for it in arguments]
    return _checked(int(_libc().syscall(ctypes.c_long(number), *known)))


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


@dataclass(frozen=True)
class Limits:
    start_seconds: float = 120.0
    # Of the child's processor time, which is the same on a machine that does something else too.
    answer_seconds: float = 10.0
    # Until a verdict comes; what takes longer is the machine's fault.
    verdict_seconds: float = 120.0
    resident_bytes: int = 1536 * MEBIBYTE
    file_bytes: int = 8 * MEBIBYTE
    open_files: int = 64


def apply_limits(limits: Limits) -> None:
    """Sets the limits that the system enforces; the parent enforces time and memory. Windows has none."""
    if sys.platform == "win32":
        return
    import resource

    for kind, wanted in (
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        ceiling = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (ceiling, ceiling))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(confine(Path.cwd()).document()) + "\n")

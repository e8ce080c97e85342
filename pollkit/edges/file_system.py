"""The abilities of a file system: some network and virtual ones lack locks, or shared memory.

Both are tried on a temporary file: a process that closes a file loses all its locks on it. If none
can be created, the file system counts as a usual one: the command that uses it then fails with
the true reason. Whether it is a network file system is read from the list of mounts.
"""

import errno
import os

_NETWORK_FILE_SYSTEMS = tuple(
    "nfs cifs smb afs ceph lustre gfs ocfs glusterfs 9p sshfs webdav davfs".split()
)
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def has_locks(folder: str) -> bool:
    """Whether files in a folder can be locked (fcntl), as SQLite needs."""
    try:
        import fcntl
    except ImportError:
        return True  # Windows has other locks
    from tempfile import TemporaryFile  # late: most runs need neither check

    try:
        with TemporaryFile(dir=folder) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _NO_LOCKS
    return True


def has_shared_memory(folder: str) -> bool:
    """Whether processes can share memory through a file there, as a write-ahead log needs."""
    import mmap
    from tempfile import TemporaryFile

    try:
        with TemporaryFile(dir=folder) as file:
            file.truncate(mmap.PAGESIZE)
            try:
                mmap.mmap(file.fileno(), mmap.PAGESIZE).close()
            except OSError:
                return False
    except OSError:
        pass
    return True


def is_on_network(path: str, mounts: str = "/proc/self/mounts") -> bool:
    """Whether a file is on a network file system, according to the list of mounts."""
    whole = os.path.realpath(path)
    file_system = ""
    longest = -1
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                fields = line.split(" ")
                point = fields[1].replace("\\040", " ").rstrip("/") + "/"
                if whole.startswith(point) and len(point) >= longest:
                    file_system = fields[2]
                    longest = len(point)
    except (OSError, IndexError):
        return False
    return file_system.split(".")[-1].rstrip("234").startswith(_NETWORK_FILE_SYSTEMS)

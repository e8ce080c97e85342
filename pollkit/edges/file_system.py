"""The abilities of a file system: some network and virtual ones lack locks, or shared memory.

Both are tried on a temporary file: a process that closes a file loses all its locks on it. If none
can be created, the file system counts as a usual one: the command that uses it then fails with
the true reason.
"""

import errno

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

"""Errors that mean that this host lacks memory, threads or files: not a bug of pollkit."""

import errno
import os


def can_open_files(count: int) -> bool:
    """Whether this process can have so many more files open at once."""
    opened = []
    try:
        for _ in range(count):
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return True


def describe_shortage(error: BaseException) -> str:
    """The resource that this host lacks, and the limit to raise; '' for any other error."""
    text = str(error)
    if isinstance(error, MemoryError):
        return "out of memory: is it limited (ulimit -v)?"
    if isinstance(error, RuntimeError) and "can't start new thread" in text:
        return "can't start a thread: are processes (ulimit -u) or memory (ulimit -v) limited?"
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return "too many open files: raise the limit (ulimit -n)"
    if isinstance(error, SystemError):  # Python 3.13 raises it when an allocation has failed
        return "Python itself failed (%s): is there enough memory (ulimit -v)?" % text
    if isinstance(error, ImportError):
        return "this Python can't import %s: is it complete, and is there memory (ulimit -v)?" % (
            error.name or text
        )
    return ""

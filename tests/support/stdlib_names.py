"""The modules of the standard library that pollkit may import."""

STDLIB = set(
    """
    argparse base64 bisect calendar collections compileall concurrent configparser contextlib
    copy datetime difflib enum errno fcntl functools gzip hashlib heapq html http importlib io
    ipaddress itertools json locale logging math multiprocessing netrc operator os pkgutil
    platform queue random re runpy select selectors shlex shutil signal socket socketserver
    sqlite3 ssl stat string struct subprocess sys tempfile textwrap threading time traceback
    types typing unicodedata urllib uuid warnings weakref zipapp zipfile zlib
""".split()
)

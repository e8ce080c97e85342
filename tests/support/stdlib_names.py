"""The modules of the standard library that pollkit may import."""

STDLIB = set(
    """
    abc argparse array base64 bisect calendar collections compileall concurrent configparser
    contextlib copy datetime difflib enum errno fcntl functools gc getpass grp gzip hashlib heapq
    hmac html http importlib io ipaddress itertools json locale logging math mmap multiprocessing
    netrc operator os pathlib pkgutil platform pwd queue random re runpy select selectors shlex
    shutil signal socket socketserver sqlite3 ssl stat string struct subprocess sys tempfile
    textwrap threading time traceback types typing unicodedata urllib uuid warnings weakref
    webbrowser zipapp zipfile zlib
""".split()
)

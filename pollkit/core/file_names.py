"""The name of a file for each job.

House rules: an id is untrusted. Its name has no separator, is not '..', begins with neither a dot
nor a dash, and is bounded in length. Two ids never get the same name: all characters but letters,
digits, '.', '_' and '-' are percent-encoded, also the '%'. A long name, or one with a secret in it,
is cut and gets a '~', which no other name has, and a hash of the whole id. No name ends like that
of an unfinished result (PART, ETAG), which would be the file of another job.
"""

import re

from .urls import is_url, redact_url

LONGEST_NAME = 120  # characters; most file systems allow 255
_KEPT = 80  # of a name that is cut
PART = ".part"  # ends the name of a result that is not complete yet
ETAG = ".etag"  # ends the name of the file beside it
_CONFUSING = re.compile(r"^[.-]|\.(?=(?:part|etag)$)")


def file_name(job_id: str) -> str:
    """The name for a job's id.

    >>> file_name("../a b")
    '%2E.%2Fa%20b'
    >>> file_name("a.part")
    'a%2Epart'
    """
    from urllib.parse import quote  # late, as in urls.py

    shown = redact_url(job_id) if is_url(job_id) else job_id
    name = quote(shown.encode("utf-8", "surrogatepass"), safe="").replace("~", "%7E")
    name = _CONFUSING.sub(lambda match: "%%%02X" % ord(match.group()), name)
    if shown == job_id and len(name) <= LONGEST_NAME:
        return name or "%"
    from hashlib import sha256  # late: most ids are short

    digest = sha256(job_id.encode("utf-8", "surrogatepass")).hexdigest()
    return "%s~%s" % (name[:_KEPT], digest[:32])

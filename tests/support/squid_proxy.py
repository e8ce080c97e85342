"""A real squid on a free port, as an authenticating forward proxy."""

import contextlib
import os
import shutil
import tempfile

from programs import running_server

LOGIN = "user:pass"
SETTINGS = """
http_port 127.0.0.1:{port}
auth_param basic program {folder}/check
auth_param basic children 1
acl known proxy_auth REQUIRED
acl forbidden dstdomain forbidden.invalid
http_access deny forbidden
http_access allow known
http_access deny all
cache deny all
access_log none
cache_log {folder}/log
pid_filename {folder}/pid
coredump_dir {folder}
shutdown_lifetime 0 seconds
connect_timeout 2 seconds
visible_hostname localhost
max_filedescriptors 1024
"""
CHECK = """#!/bin/sh
while read user password rest; do
    if [ "$user:$password" = "{login}" ]; then echo OK; else echo ERR; fi
done
"""


@contextlib.contextmanager
def running_squid(login=LOGIN):
    """The authority of a running squid that wants this name and password."""
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o777)  # squid gives up its rights if it is started by root
    with open(os.path.join(folder, "check"), "w") as file:
        file.write(CHECK.format(login=login))
    os.chmod(file.name, 0o755)

    def command_for(program, port):
        path = os.path.join(folder, "conf")
        with open(path, "w") as file:
            file.write(SETTINGS.format(port=port, folder=folder))
        return [program, "-N", "-f", path]

    try:
        with running_server("squid", command_for) as port:
            yield "127.0.0.1:%d" % port
    finally:
        shutil.rmtree(folder)

"""The command line.

House rules: data goes to stdout, everything else to stderr. A command returns its exit code, or
raises ConfigError (exit code 2). A command's modules are imported when it is called, not before:
cron starts this program every minute.
"""

from .main import main as main

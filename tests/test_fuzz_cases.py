"""Random input breaks no parser, no reader and no ledger row: thousands of fuzzed cases."""

import os
import re
import subprocess
import sys

from paths import ROOT


def test_thousands_of_cases_find_no_failure_in_any_target():
    script = os.path.join(ROOT, "scripts", "fuzz.py")
    command = [sys.executable, script, "--cases", "3000", "--seed", "7"]
    out = subprocess.check_output(command, universal_newlines=True)
    found = re.findall(r"^(\w+): (\d+) executions", out, re.MULTILINE)
    targets = {"parser", "streaming", "callbacks", "reader", "headers", "urls", "ini", "ledger"}
    assert {name for name, _ in found} == targets
    assert sum(int(count) for _, count in found) >= 3000

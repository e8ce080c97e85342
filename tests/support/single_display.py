"""Run in a pty by test_terminal.py: a single job on the display, told by a script rather than a server.

Arguments: flags of the display, and 'polls=N' for how often the job is asked about.
"""

import argparse
import sys
import time

import pollkit
from pollkit.cli.progress import display as progress


def main():
    length = next(int(word[6:]) for word in sys.argv if word.startswith("polls="))
    parser = argparse.ArgumentParser()
    progress.add_arguments(parser)
    arguments = parser.parse_args([word for word in sys.argv[1:] if not word.startswith("polls=")])
    asked = []

    def ask():
        asked.append(1)
        share = (len(asked) - 1) / (length - 1)
        return {
            "status": "done" if share >= 1 else "処理中 e\u0301 \x1b[31mred",
            "progress": min(share, 1.0),
        }

    display = progress.display_from(arguments, title="job_1")
    with display, pollkit.Poller(pace="fixed 100ms", on_event=display.on_event) as poller:
        display.say("above the bar")
        outcome = poller.poll(ask)
        display.out("half way\n")
        time.sleep(0.15)
    print("ended: %s" % outcome.state)


try:
    main()
except KeyboardInterrupt:
    sys.exit(130)

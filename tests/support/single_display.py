"""Run in a pty by test_terminal.py: the display of a single job, without a server.

Arguments: options of the display, and 'polls=N', the number of polls until the job is done.
"""

import sys
import time

import pollkit
from pollkit.cli.arguments.parser import Parser
from pollkit.cli.progress.display import add_progress_options, display_from


def main():
    length = next(int(word[6:]) for word in sys.argv if word.startswith("polls="))
    parser = Parser("single_display")
    add_progress_options(parser)
    arguments = parser.parse_words([word for word in sys.argv[1:] if not word.startswith("polls=")])
    polls = []

    def job():
        polls.append(1)
        fraction = (len(polls) - 1) / (length - 1)
        return {
            "status": "done" if fraction >= 1 else "処理中 e\u0301 \x1b[31mred",
            "progress": min(fraction, 1.0),
        }

    display = display_from(arguments, title="job_1")
    with display, pollkit.Poller(pace="fixed 100ms", on_event=display.on_event) as poller:
        display.write_line("above the bar")
        outcome = poller.poll(job)
        display.write_data("half way\n")
        time.sleep(0.15)
    print("finished: %s" % outcome.state)


try:
    main()
except KeyboardInterrupt:
    sys.exit(130)

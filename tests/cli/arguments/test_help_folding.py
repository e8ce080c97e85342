"""--help on narrow terminals: paragraphs are folded anew, commands stay in one piece."""

import pytest

from pollkit.cli.arguments.help_folding import fold_text, fold_words
from pollkit.cli.main import COMMANDS, help_text, main

DESCRIPTION = """\
Poll the jobs of a ledger until all have finished; any number of runs may share one.

Without a terminal, it prints only problems, because cron mails everything that is printed: one line
for each job that was not done.
--once leaves jobs waiting.

examples:
  pollkit run jobs.db --for 55s --splay 20s
  pollkit run jobs.db              until all have finished
  run         a name, whose description continues below itself
"""


def test_a_text_that_fits_does_not_change():
    assert fold_text(DESCRIPTION, 100) == DESCRIPTION


def test_paragraphs_and_comments_are_folded_and_commands_are_not():
    assert fold_text(DESCRIPTION, 40) == (
        "Poll the jobs of a ledger until all have\n"
        "finished; any number of runs may share\n"
        "one.\n"
        "\n"
        "Without a terminal, it prints only\n"
        "problems, because cron mails everything\n"
        "that is printed: one line for each job\n"
        "that was not done.\n"
        "--once leaves jobs waiting.\n"
        "\n"
        "examples:\n"
        "  pollkit run jobs.db --for 55s --splay 20s\n"
        "  pollkit run jobs.db\n"
        "      until all have finished\n"
        "  run         a name, whose description\n"
        "              continues below itself\n"
    )


@pytest.mark.parametrize(
    "text, lines",
    [
        (
            "paces such as 'backoff 2s..30s x1.5' or 'fixed 5s'",
            ["paces such as", "'backoff 2s..30s x1.5' or", "'fixed 5s'"],
        ),
        (
            "in ~/.local/state/pollkit/history.json, as usual",
            ["in", "~/.local/state/pollkit/history.json,", "as usual"],
        ),
        ("mixed-models or mixed-documents", ["mixed-models or", "mixed-documents"]),
        ("the job's id isn't the server's", ["the job's id isn't the", "server's"]),
    ],
)
def test_what_a_reader_copies_stays_in_one_piece(text, lines):
    assert fold_words(text, 30) == lines


def test_a_very_narrow_terminal_does_not_fold_each_word():
    assert fold_words("one two three", 3) == ["one two three"]


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize("command", COMMANDS)
def test_only_commands_to_copy_are_wider_than_the_terminal(command, columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main([command, "--help"]) == 0
    long_lines = [line for line in capsys.readouterr().out.splitlines() if len(line) > columns]
    assert all(line.startswith("  pollkit ") for line in long_lines)


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
@pytest.mark.parametrize("columns", [40, 60])
def test_the_overview_fits_80_columns_and_is_folded_below(words, columns, monkeypatch, capsys):
    assert max(map(len, help_text().splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(words) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= columns
    assert text.split()[: len(help_text().split())] == help_text().split()


@pytest.mark.parametrize("command", COMMANDS)
def test_flags_and_their_descriptions_fit_40_columns(command, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    assert main([command, "--help"]) == 0
    usage, _, rest = capsys.readouterr().out.partition("\n\n")
    long_lines = [line for line in rest.splitlines() if len(line) > 40]
    to_copy = ("  pollkit ", "~/.local", "postgresql://", "{auto,")
    assert all(any(text in line for text in to_copy) for line in long_lines), long_lines

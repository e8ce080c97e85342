"""Flags of other programs are answered with flags of pollkit that exist."""

import re

import pytest

from pollkit.cli.arguments.flag_advice import ADVICE, advice_for
from pollkit.cli.arguments.parser import Parser
from pollkit.cli.commands import batch


def known_flags():
    parser = Parser(prog="pollkit batch")
    batch.add_arguments(parser)
    return set(parser._option_string_actions)


@pytest.mark.parametrize("advice", ADVICE, ids=lambda advice: advice.flags)
def test_an_answer_names_a_flag_that_exists_for_one_that_does_not(advice):
    assert advice.ours in known_flags()
    assert set(re.findall(r"--[a-z-]+", advice.text)) <= known_flags()
    assert not known_flags() & set(advice.flags.split())


def test_each_flag_has_one_answer():
    flags = [flag for advice in ADVICE for flag in advice.flags.split()]
    assert len(flags) == len(set(flags))


def test_a_command_without_our_flag_gives_no_answer():
    assert advice_for("--interval", ["--json"]) is None
    assert advice_for("--interval", ["--pace"]) == "--interval: use --pace 'fixed 5s'"

"""Print the script with which bash, zsh or fish completes commands, flags, files and profiles.

bash: add this line to ~/.bashrc, after the line that defines the alias pollkit, if you use one:
  eval "$(pollkit completion bash)"
zsh: add this line to ~/.zshrc, after compinit:
  source <(pollkit completion zsh)
fish: run this once:
  pollkit completion fish > ~/.config/fish/completions/pollkit.fish
Print the script again after an update of pollkit, if you saved it in a file.

The scripts run 'pollkit completion profile-names' for the names of the profiles.

examples:
  pollkit completion bash > ~/.local/share/bash-completion/completions/pollkit
  pollkit completion zsh > ~/.zfunc/_pollkit
  pollkit completion fish > ~/.config/fish/completions/pollkit.fish
"""

import argparse

from ...exit_codes import ALL_DONE
from ...output.streams import write

PROFILE_NAMES = "profile-names"
SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "shell",
        metavar="bash|zsh|fish",
        choices=(*SHELLS, PROFILE_NAMES),
        help="the shell whose script is printed",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the script of a shell, or the names of the profiles."""
    if arguments.shell == PROFILE_NAMES:
        write(_profile_names())
    else:
        write(_script(arguments.shell))
    return ALL_DONE


def _profile_names() -> str:
    from ....edges.profiles.catalog import all_profiles  # late: reads INI files

    return "".join(listed.name + "\n" for listed in all_profiles(None))


def _script(shell: str) -> str:
    from ...completion.arguments import all_commands
    from ...completion.bash import bash_script
    from ...completion.fish import fish_script
    from ...completion.zsh import zsh_script

    scripts = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
    return scripts[shell](all_commands())

"""Answers to flags that other programs have: how to do the same with pollkit."""

from typing import Container, NamedTuple, Optional


class Advice(NamedTuple):
    """The answer to some flags; only commands that have the flag `ours` give it."""

    flags: str  # separated by blanks
    ours: str
    text: str


ADVICE = (
    Advice("--interval --poll-interval --every --delay --sleep -n", "--pace", "--pace 'fixed 5s'"),
    Advice("--attempts --max-attempts", "--pace", "--pace 'fixed 5s attempts=60'"),
    Advice("--backoff", "--pace", "--pace 'backoff 2s..30s x1.5'"),
    Advice(
        "--retry --retries --max-retries --tries",
        "--max-faults",
        "--max-faults N; pollkit retries without being asked, until N faults in a row",
    ),
    Advice("--max-time -m --wait --deadline", "--timeout", "--timeout 10m"),
    Advice(
        "--connect-timeout --request-timeout",
        "--profile",
        "request_timeout = 10s in a profile (pollkit help profiles)",
    ),
    Advice(
        "--insecure -k --no-check-certificate --no-verify --no-verify-ssl",
        "--ca-file",
        "--ca-file FILE, which names your own CA; certificates are always verified",
    ),
    Advice("--cacert --cafile --ca", "--ca-file", "--ca-file FILE"),
    Advice("--cert -E", "--client-cert", "--client-cert FILE"),
    Advice("--key", "--client-key", "--client-key FILE"),
    Advice("-x", "--proxy", "--proxy URL"),
    Advice("-H", "--header", "--header 'Name: value'"),
    Advice("-A --user-agent", "--header", "--header 'User-Agent: NAME'"),
    Advice(
        "-u --user --password --token --bearer --api-key",
        "--token-env",
        "--token-env VAR or --token-file FILE; others on this host can read the command line",
    ),
    Advice(
        "-X --request --method -d --data --body",
        "--profile",
        "method = and body = in a profile (pollkit help profiles)",
    ),
    Advice("-j --jobs --threads --concurrency --parallel", "--workers", "--workers N"),
    Advice("--rate --rate-limit --rps", "--limit", "--limit 60/m"),
    Advice("-o --out --output-file", "--output", "'> FILE' to write the outcomes to a file"),
    Advice("--json", "--output", "--output json"),
    Advice("--config", "--profiles", "--profiles FILE"),
    Advice("-s --silent -q", "--quiet", "--quiet"),
    Advice("--debug --trace", "--verbose", "-v"),
)


def advice_for(flag: str, known_flags: Container[str]) -> Optional[str]:
    """The answer to a flag of another program; None if there is none."""
    for advice in ADVICE:
        if flag in advice.flags.split() and advice.ours in known_flags:
            return "%s: use %s" % (flag, advice.text)
    return None

"""Chunks (RFC 9112, 7.1) that have arrived as a whole, taken at once.

A server that sends 150,000 chunks of one byte cost 1.1 s of CPU time when each was taken part by
part, and costs 0.35 s here (Python 3.6, on a busy machine).
"""

import re

# Whatever the parser accepts, as long as it is short: long forms are few, because their bytes are
# limited. The number is not 0.
_SPACE = rb"[ \t\r\x0b\x0c]{0,8}"
_NUMBER = rb"0{0,8}([1-9a-fA-F][0-9a-fA-F]{0,2})"
_SIZE = _SPACE + _NUMBER + _SPACE + rb"(?:;[^\n]{0,40})?\n"
_END = rb"\r{0,8}\n"


def take_whole_chunks(buffer: bytearray, body: bytearray, most_framing: int, most_body: int) -> int:
    """Move the data of chunks from the start of the buffer to the body; the bytes of framing.

    Everything else stays in the buffer: other chunks, what exceeds the limits, and mistakes.
    """
    # Compiled when they are first used: that takes a million instructions, and few replies to a
    # poll have chunks.
    match_size = re.compile(_SIZE).match
    match_end = re.compile(_END).match
    at = 0
    framing = 0
    longest = len(body) + most_body
    while True:
        size = match_size(buffer, at)
        if size is None:
            break
        data_end = size.end() + int(size.group(1), 16)
        end = match_end(buffer, data_end)
        if end is None:
            break
        next_at = end.end()
        framing_after = framing + next_at - data_end + size.end() - at
        if framing_after > most_framing or len(body) + data_end - size.end() > longest:
            break
        body += buffer[size.end() : data_end]
        framing = framing_after
        at = next_at
    del buffer[:at]
    return framing

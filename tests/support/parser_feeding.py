"""Feeds responses to the HTTP parser: whole, byte by byte, and in every pair of pieces."""

from pollkit.edges.http.parser import BadResponse, ResponseParser


def outcome_of(pieces, is_head=False):
    """The comparable result of feeding these pieces, after which the server closes the connection.

    Surplus bytes that arrive with the response are reported by the parser, later ones are left
    over: both count the same here, for they depend on how the bytes are cut.
    """
    parser = ResponseParser(has_no_body=is_head)
    pieces = list(pieces)
    needed_more = False
    try:
        response = None
        while pieces and response is None:
            response = parser.feed(pieces.pop(0))
        if response is None:
            needed_more = True
            response = parser.end()
    except BadResponse as error:
        # What follows the colon quotes the bytes that had arrived.
        return type(error), str(error).partition(":")[0], needed_more
    left_over = any(pieces)
    return (
        response.status,
        response.headers,
        response.body,
        needed_more,
        response.can_reuse and not left_over,
        response.has_surplus or left_over,
    )


def assert_pieces_do_not_matter(data, is_head=False):
    """Feed the data whole, byte by byte and in every pair of pieces; the result when fed whole."""
    whole = outcome_of([data], is_head)
    assert outcome_of([data[i : i + 1] for i in range(len(data))], is_head) == whole
    for i in range(len(data) + 1):
        assert outcome_of([data[:i], data[i:]], is_head) == whole, (i, data)
    return whole


def parse(data, is_head=False):
    """The response, which must be complete without the end of the connection."""
    response = ResponseParser(has_no_body=is_head).feed(data)
    assert response is not None
    return response

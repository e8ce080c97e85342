"""HTTP/1.1 on sockets: the parser, connections, the pool, and the transport that uses them."""

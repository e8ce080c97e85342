"""Other clients than pollkit's own sockets: urllib, requests and curl."""

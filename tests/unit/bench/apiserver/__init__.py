"""The simulated API server's rules, without sockets and with time as a number."""

"""The consistency test: real processes, devices that follow the protocol, a nemesis, and a history for the checker."""

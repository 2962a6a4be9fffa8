"""Exit codes of the command line and of the processes, once.

The supervisor reads them too: a child that ends with `UNUSABLE` is not started again, because the
same arguments and files would end it again.
"""

from typing import Final

OK: Final = 0
FAILED: Final = 1
"""The work was tried and failed: a check found something, a child kept dying, a run timed out."""
UNUSABLE: Final = 2
"""Arguments, configuration or surroundings cannot be used (argparse ends with 2 as well)."""
NOT_RUNNING: Final = 3
"""`berth status` and `berth dump`: no berth answers on that runtime directory."""
ALREADY_RUNNING: Final = 4
"""`berth run`: another berth has that runtime directory."""
LEASE_LOST: Final = 5
"""The owner, to its supervisor: the lease was lost, and with it what was decided. The next owner
lists the cluster anew and stands by."""
FILE_UNUSABLE: Final = 6
"""A child, to its supervisor: a file that it was told to read (a kubeconfig, a certificate, keys) cannot
be used just now. It could when berth started, so it is tried until it can be again."""
NO_DEATHS: Final = (LEASE_LOST, FILE_UNUSABLE)

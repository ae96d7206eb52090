"""A process that only notices when the machine stands still: a sleep that takes too long, a slow write. The process
prints the beginning of each standstill (milliseconds since the epoch). The process shares disk and processors with the
service: a delay of this process would have delayed the service as well, through no fault of the service.
"""

import os
import sys
import time

_PAUSE = 0.005
_LATE = 0.02
_WRITE_EVERY = 10


def main(directory: str) -> None:
    descriptor = os.open(os.path.join(directory, "canary.sync"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    turns = 0
    while True:
        since = time.time_ns() // 1_000_000
        started = time.monotonic()
        time.sleep(_PAUSE)
        turns += 1
        if turns % _WRITE_EVERY == 0:
            os.pwrite(descriptor, b"x", 0)
            os.fsync(descriptor)
        if time.monotonic() - started > _PAUSE + _LATE:
            print(since, flush=True)


main(sys.argv[1])

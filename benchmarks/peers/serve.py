"""A peer's side of the pipe: makes steps by name and times them on request.

Run beside another framework, in an interpreter that may have nothing but that framework:
imports the standard library alone.
"""

import json
import sys
import time


def serve(makers):
    """Answers requests, one line of JSON each, until the pipe is closed.

    Args:
        makers: dict from a name to a function whose result is called to run one step, and
            returns when the step is done.
    """
    print(json.dumps("ready"), flush=True)
    step = None
    for line in sys.stdin:
        request = json.loads(line)
        if "make" in request:
            step = makers[request["make"]](*request["arguments"])
            begin = time.perf_counter()
            step()
            answer = time.perf_counter() - begin
            step()
        else:
            # The first finds the caches as the other's turn left them.
            step()
            begin = time.perf_counter()
            for _ in range(request["times"]):
                step()
            answer = time.perf_counter() - begin
        print(json.dumps(answer), flush=True)

"""A notebook on the login node, for tests: cells come in, and what a person sees goes out.

A cell is a JSON text on a line of its own; so is the answer. The first line out is the process id.
"""

import json
import os
import sys
import time

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output


def main() -> None:
    """Run cells until there are no more."""
    shell = InteractiveShell.instance(colors="nocolor", xmode="Minimal")
    shell.history_manager.enabled = False
    print(os.getpid(), flush=True)
    for line in sys.stdin:
        begun = time.monotonic()
        with capture_output() as captured:
            result = shell.run_cell(json.loads(line), store_history=False)
        error = result.error_before_exec or result.error_in_exec
        answer = {
            "value": result.result,
            "shown": captured.stdout + captured.stderr,
            "error": "" if error is None else type(error).__name__,
            "text": str(error or ""),
            "seconds": time.monotonic() - begun,
        }
        print(json.dumps(answer, default=repr), flush=True)


if __name__ == "__main__":
    main()

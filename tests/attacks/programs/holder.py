"""Hold secrets everywhere one can be held: argv[1] is the secret, argv[2] a file that has it too, argv[3] seconds."""

import ctypes
import sys
import time

kept = [f"{sys.argv[1]}-{number}" for number in range(2000)]
buffer = ctypes.create_string_buffer(sys.argv[1].encode() * 10, 4096)
with open(sys.argv[2]) as file:
    print("holding", flush=True)
    time.sleep(float(sys.argv[3]))
assert file, (kept, buffer)

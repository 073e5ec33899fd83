"""Runs another program of this folder from where it lies: `python3 -I` leaves its folder out of the path."""

import runpy
import sys

sys.path.insert(0, sys.argv[1].rpartition("/")[0])
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")

#!/bin/sh
said=$(PYTHONPATH=/root/lib python3 -c 'import greet; print(greet.greet("world"))')
if [ "$said" = "Good day, world!" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt

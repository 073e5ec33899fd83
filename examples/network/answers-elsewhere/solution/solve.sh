#!/bin/sh
set -e
# the answers are not for the agent
if curl -sf http://answers.example:8737/greeting; then exit 1; fi
file=$(curl -sf http://mirror.example:8737/simple/greet/ | sed 's/.*href="\([^"#]*\)#.*/\1/')
curl -sf -o /tmp/greet.whl "http://mirror.example:8737$file"
PYTHONPATH=/tmp/greet.whl python3 -c 'import greet; print(greet.greet("world"))' > /root/greeting.txt

#!/bin/sh
set -e
# not allowed, and the answer says so
curl -s http://elsewhere.example/simple/greet/ || true
page=$(curl -sf http://mirror.example:8737/simple/greet/)
file=$(printf '%s' "$page" | sed 's/.*href="\([^"#]*\)#.*/\1/')
curl -sf -o /tmp/greet.whl "http://mirror.example:8737$file"
printf '%s' "$page" | sed 's/.*#sha256=\([0-9a-f]*\)".*/\1  \/tmp\/greet.whl/' | sha256sum -c -
mkdir -p /root/lib
python3 -m zipfile -e /tmp/greet.whl /root/lib

#!/bin/sh
{
    echo "$(id -un):$(id -gn)"
    echo "$HOME"
    if ls /root > /dev/null 2>&1; then echo open; else echo closed; fi
} > "$HOME/report.txt"

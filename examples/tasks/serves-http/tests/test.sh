#!/bin/sh
# Asks the agent's server, which must still be there.
page=$(python3 -c '
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8000/index.html", timeout=10).read().decode().strip())')
if [ "$page" = 'it works' ]; then
    echo 'the server answered'
    echo 1 > /logs/verifier/reward.txt
else
    echo "the server did not answer as asked: $page"
    echo 0 > /logs/verifier/reward.txt
fi

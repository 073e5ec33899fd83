#!/bin/sh
set -e
mkdir -p /root/www
echo 'it works' > /root/www/index.html

# Started in one command, used by the next ones and by the verifier.
nohup python3 -m http.server 8000 --bind 127.0.0.1 --directory /root/www \
    < /dev/null > /root/server.log 2>&1 &
server=$!

until python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8000), 5).close()' 2> /dev/null; do
    kill -0 "$server" || { cat /root/server.log; exit 1; }
done
python3 -c 'import urllib.request as r; print(r.urlopen("http://127.0.0.1:8000/", timeout=5).read().decode())'

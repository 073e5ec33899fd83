#!/bin/sh
# The reward is 1 if the file holds exactly the line that was asked for.
if [ "$(cat /root/hello.txt)" = 'Hello, world!' ]; then
    echo 'hello.txt is right'
    echo 1 > /logs/verifier/reward.txt
else
    echo 'hello.txt is not right'
    echo 0 > /logs/verifier/reward.txt
fi

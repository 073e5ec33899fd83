#!/bin/sh
# without the answers there is no verdict: better none than a wrong one
wanted=$(curl -sf http://answers.example:8737/greeting) || exit 1
if [ "$(cat /root/greeting.txt)" = "$wanted" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt

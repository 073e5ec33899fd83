#!/bin/sh
# Broken on purpose: the checker it calls is not installed, and set -e ends the script before the reward.
set -e
echo 'checking /root/today.txt'
date-checker /root/today.txt
echo 1 > /logs/verifier/reward.txt

#!/bin/sh
# The agent worked as agent:staff, the verifier is root, and the agent could not look into /root.
report=/home/agent/report.txt
reward=1

check() { # WHAT WANTED GOT
    if [ "$2" = "$3" ]; then
        echo "ok: $1 is $3"
    else
        echo "wrong: $1 is '$3', not '$2'"
        reward=0
    fi
}

check 'the verifier' root "$(id -un)"
check 'the owner of report.txt' agent:staff "$(stat -c %U:%G "$report")"
check 'the agent' agent:staff "$(sed -n 1p "$report")"
check "the agent's home" /home/agent "$(sed -n 2p "$report")"
check '/root for the agent' closed "$(sed -n 3p "$report")"
check 'the mode of /root' 700 "$(stat -c %a /root)"
echo "$reward" > /logs/verifier/reward.txt

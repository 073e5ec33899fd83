#!/bin/sh
# Three tests, each with its own result in ctrf.json; the reward is 1 only if all passed.
results=
passed=0
failed=0

check() { # NAME INPUT WANTED
    got=$(printf '%b' "$2" | /root/sum.sh 2>&1 | head -c 100 | tr -cd 'a-zA-Z0-9 .:/-')
    if [ "$got" = "$3" ]; then
        passed=$((passed + 1))
        result="{\"name\": \"$1\", \"status\": \"passed\", \"duration\": 0}"
    else
        failed=$((failed + 1))
        result="{\"name\": \"$1\", \"status\": \"failed\", \"duration\": 0, \"message\": \"wanted '$3', got '$got'\"}"
    fi
    echo "$result"
    results="$results${results:+, }$result"
}

check 'adds two numbers' '2\n40\n' 42
check 'adds negative numbers' '-5\n3\n' -2
check 'prints 0 without input' '' 0

cat > /logs/verifier/ctrf.json <<END
{"results": {
    "tool": {"name": "sh"},
    "summary": {"tests": 3, "passed": $passed, "failed": $failed, "pending": 0, "skipped": 0, "other": 0,
                "start": 0, "stop": 0},
    "tests": [$results]
}}
END
if [ "$failed" = 0 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt

#!/usr/bin/env bash
# Shows tierledger at work: a service on a store of its own, a recorded Kafka cluster replayed
# through it while leaders change and hosts die, and what one asks afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."

tierledger=.venv/bin/tierledger
folder=demo-output
trace=tests/traces/three-brokers-churn
export TIERLEDGER_STORE="sqlite:$folder/ledger.sqlite"

rm -rf "$folder"
mkdir -p "$folder"

# Only a terminal shows what is bold.
bold=
plain=
if [ -t 2 ]; then
    bold=$'\033[1m'
    plain=$'\033[0m'
fi

show() {
    # To copy it, arguments are quoted; some output goes into a pipe.
    printf '\n%s$ tierledger%s%s\n' "$bold" "$(printf ' %q' "$@")" "$plain" >&2
    "$tierledger" "$@"
}

serve=
stop() {
    if [ -n "$serve" ]; then
        kill -TERM "$serve" 2>/dev/null || true
        wait "$serve" || true
        serve=
    fi
}
trap stop EXIT

printf '%s$ tierledger serve --cluster demo &%s\n' "$bold" "$plain" >&2
"$tierledger" serve --cluster demo >"$folder/serve.log" 2>&1 &
serve=$!
for _ in $(seq 240); do
    grep -q '^serving' "$folder/serve.log" && break
    kill -0 "$serve" 2>/dev/null || { cat "$folder/serve.log"; exit 1; }
    sleep 0.25
done
cat "$folder/serve.log"

echo
echo "8,063 records that three real brokers wrote, with unclean elections, go through live"
echo "leaders now. Five times something is done to the service. Then every question that"
echo "Kafka's own manager was asked is asked of a leader, of a follower, and of the store."
show replay "$trace" --churn 5 --check --from all --report "$folder/report.html"

show status
show ls
show describe events 1
show lookup events 1 11 606
show log events 1 | tail -n 4

echo
echo "Another recording comes with the remote tier itself, as a stock broker left it."
show replay tests/traces/tier --check
stop

echo
echo "The service is gone; the store answers by itself."
show lookup events 1 11 606
show verify | tail -n 3

echo
echo "So does the tier: records by offset, committed ones alone, without any broker."
show cat payments-tx 0 --tier local-tiered:tests/traces/tier/tier --from-offset 160 \
    --isolation read_committed --max-records 3 --cache "$folder/indexes" | cut -c1-180
show export "$folder/records.jsonl.gz"

echo
echo "Look at it: $folder/report.html"
echo "The store stays at $folder/ledger.sqlite: try $tierledger ls --store $TIERLEDGER_STORE"
echo "In a browser: $tierledger console --store $TIERLEDGER_STORE"

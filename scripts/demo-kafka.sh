#!/usr/bin/env bash
# Shows a stock Kafka broker on tierledger: it tiers, is killed, and gives back every record; then
# its topic is deleted, and brought back.
set -euo pipefail
cd "$(dirname "$0")/.."

tierledger=.venv/bin/tierledger
python=.venv/bin/python
folder=$PWD/demo-output/kafka
cluster=MkU3OEVBNTcwNTJENDM2Qg
export TIERLEDGER_STORE="sqlite:$folder/ledger.sqlite"

rm -rf "$folder"
mkdir -p "$folder"
read -r door kafka controller < <("$python" - <<'PYTHON'
import socket
with socket.create_server(("127.0.0.1", 0)) as a, socket.create_server(("127.0.0.1", 0)) as b, \
        socket.create_server(("127.0.0.1", 0)) as c:
    print(*(one.getsockname()[1] for one in (a, b, c)))
PYTHON
)

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

broker=
serve=
stop() {
    for pid in $broker $serve; do
        kill -TERM "$pid" 2>/dev/null || true
        wait "$pid" || true
    done
    broker=
    serve=
}
trap stop EXIT

# wait_for PID LOG TEXT: until the process has written that.
wait_for() {
    for _ in $(seq 480); do
        grep -q "$3" "$2" && return
        kill -0 "$1" 2>/dev/null || break
        sleep 0.25
    done
    tail -n 20 "$2"
    exit 1
}

java=(java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1
    -Dlog4j2.configurationFile="$folder/log4j2.xml"
    -cp "$PWD/.venv/kafka/*:$PWD/.venv/kafka-tier/*")

start_broker() {
    "${java[@]}" kafka.Kafka "$folder/server.properties" >"$folder/$1.log" 2>&1 &
    broker=$!
    wait_for "$broker" "$folder/$1.log" "Kafka Server started"
    echo "broker 1 runs at 127.0.0.1:$kafka, pid $broker"
}

cat >"$folder/log4j2.xml" <<'XML'
<Configuration status="off">
  <Appenders><Console name="out"><PatternLayout pattern="%p %c{1} %m%n"/></Console></Appenders>
  <Loggers><Root level="info"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
XML
cat >"$folder/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$kafka,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$kafka
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$folder/broker
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
remote.log.storage.system.enable=true
remote.log.storage.manager.class.name=org.tierledger.kafka.GuardedRemoteStorageManager
remote.log.storage.manager.class.path=$PWD/kafka-plugin/target/tierledger-kafka-plugin.jar
rsm.config.tierledger.guard.class.name=org.apache.kafka.server.log.remote.storage.LocalTieredStorage
rsm.config.dir=$folder/tier
remote.log.metadata.manager.class.name=org.tierledger.kafka.TierledgerRemoteLogMetadataManager
remote.log.metadata.manager.class.path=$PWD/kafka-plugin/target/tierledger-kafka-plugin.jar
remote.log.metadata.manager.listener.name=PLAINTEXT
rlmm.config.tierledger.bootstrap=127.0.0.1:$door
remote.log.manager.task.interval.ms=500
log.retention.check.interval.ms=500
log.initial.task.delay.ms=500
log.segment.delete.delay.ms=200
PROPERTIES

printf '%s$ tierledger serve --cluster %s --listen 127.0.0.1:%s --kafka 127.0.0.1:%s &%s\n' \
    "$bold" "$cluster" "$door" "$kafka" "$plain" >&2
"$tierledger" serve --cluster "$cluster" --listen "127.0.0.1:$door" --kafka "127.0.0.1:$kafka" \
    >"$folder/serve.log" 2>&1 &
serve=$!
wait_for "$serve" "$folder/serve.log" '^clients come in'
cat "$folder/serve.log"

echo
echo "A stock Kafka broker, with the plugin's jar and nothing else of ours:"
"${java[@]}" kafka.tools.StorageTool format -t "$cluster" -c "$folder/server.properties" \
    >"$folder/format.log" 2>&1 || { cat "$folder/format.log"; exit 1; }
start_broker broker
show handover --fresh --kafka "127.0.0.1:$kafka"

echo
echo "600 records go into a topic that keeps one small segment on the broker's own disk."
"$python" scripts/demo_kafka.py produce "127.0.0.1:$kafka" 600 "$folder/broker/orders-0"
show segments orders 0 | tail -n 5

echo
echo "kill -9 $broker"
kill -KILL "$broker"
wait "$broker" 2>/dev/null || true
start_broker broker-again

echo
echo "The broker reads everything back, from the tier:"
"$python" scripts/demo_kafka.py consume "127.0.0.1:$kafka" 600 orders
show status

echo
before=$(date -u +%Y-%m-%dT%H:%M:%SZ)
sleep 1
echo "Somebody deletes the topic. The guard in front of the broker's storage keeps its data:"
show hold add week --topic '*' --term 7d --deleted-by topic --reason 'topics come back'
segments=$("$tierledger" segments orders 0 --json | wc -l)
"$python" scripts/demo_kafka.py delete "127.0.0.1:$kafka" 1
for _ in $(seq 240); do
    [ "$("$tierledger" trash show orders 0 --json | wc -l)" -ge "$segments" ] && break
    sleep 0.25
done
show trash ls
show undelete orders --to orders-back --tier "local-tiered:$folder/tier/kafka-tiered-storage" \
    --kafka "127.0.0.1:$kafka" | tee "$folder/undelete.log"
back=$(sed -n 's/^\([0-9]*\) records of .*/\1/p' "$folder/undelete.log")
echo "What had been tiered is there again; the broker's newest segment had not:"
"$python" scripts/demo_kafka.py consume "127.0.0.1:$kafka" "$back" orders-back
stop

echo
echo "Broker and service are gone; the ledger answers by itself."
show lookup orders 0 0 123 --deleted
show verify | tail -n 3
show jobs coverage --as-of "$before" --page "$folder/coverage.html" | tail -n 5

echo
echo "Look at it: $folder/coverage.html"
echo "The store stays at $folder/ledger.sqlite: try $tierledger ls --store $TIERLEDGER_STORE"
echo "In a browser: $tierledger console --store $TIERLEDGER_STORE"

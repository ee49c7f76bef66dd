#!/usr/bin/env bash
# Builds the production shape on this machine by the commands of docs/servers.md, docs/operations.md and
# docs/deployment.md, and breaks it: PostgreSQL with a synchronous standby and an archive, Temporal on PostgreSQL,
# PgBouncer and HAProxy before two APIs, two workers, doubles of Stripe and of a charity provider. It prints what it saw.
# At the end it compares every successful request with the database, and every second with Stripe.
#
#   bench/trial.sh              everything; about five minutes
#   LOAD_SECONDS=120            how long the clients register
#
# Needs Debian's postgresql, pgbouncer, haproxy and openssl, and on the PATH temporal-server and temporal-sql-tool of
# Temporal 1.31 (docs/servers.md#temporal says how to build them) and the temporal program (TEMPORAL_CLI).
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$(ls -d /usr/lib/postgresql/*/bin | tail -1):$PATH:/usr/sbin
TEMPORAL_CLI=${TEMPORAL_CLI:-temporal}
LOAD_SECONDS=${LOAD_SECONDS:-120}
RUN=$(mktemp -d /tmp/impact-trial-XXXXXX)
chmod 755 "$RUN"
declare -A PIDS

step() { printf '\n== %s  %s\n' "$(date -u +%H:%M:%S)" "$*"; }
saw() { printf '   %s\n' "$*"; }
as_postgres() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- env PATH="$PATH" "$@"; else "$@"; fi; }
impact() { npm run -s impact -- "$@"; }

# background NAME COMMAND…: runs it with a log of its own.
background() {
  local name=$1
  shift
  "$@" >>"$RUN/$name.log" 2>&1 &
  PIDS[$name]=$!
}
# stop NAME [SIGNAL]: ends it and waits for it.
stop() {
  kill "-${2:-TERM}" "${PIDS[$1]}" 2>/dev/null || true
  wait "${PIDS[$1]}" 2>/dev/null || true
  unset "PIDS[$1]"
}
# until_true SECONDS WHAT COMMAND…
until_true() {
  local limit=$1 what=$2 begun=$SECONDS
  shift 2
  until "$@" >/dev/null 2>&1; do
    if [ $((SECONDS - begun)) -ge "$limit" ]; then
      saw "FAILED: $what has not happened within $limit s (logs in $RUN)"
      exit 1
    fi
    sleep 0.3
  done
  saw "$what after $((SECONDS - begun)) s"
}
finish() {
  for name in "${!PIDS[@]}"; do kill "${PIDS[$name]}" 2>/dev/null || true; done
  for data in primary standby; do
    as_postgres pg_ctl --pgdata "$RUN/$data" stop --mode immediate >/dev/null 2>&1 || true
  done
  wait 2>/dev/null || true
  saw "logs are in $RUN"
}
trap finish EXIT

DB1=25432 DB2=25433 POOLER=26432 TEMPORAL_PORT=27233 HTTPS=28443
export TEMPORAL_ADDRESS=127.0.0.1:$TEMPORAL_PORT TEMPORAL_NAMESPACE=default
for port in $DB1 $DB2 $POOLER $TEMPORAL_PORT $HTTPS 28080 28081; do
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    saw "port $port is in use"
    exit 1
  fi
done

## PostgreSQL (docs/servers.md)

step "PostgreSQL: the primary, its archive and a synchronous standby"
install -d -o "$(as_postgres id -un)" "$RUN/primary" "$RUN/standby" "$RUN/archive" "$RUN/backup" "$RUN/sockets"
chmod 700 "$RUN/standby"
printf admin >"$RUN/admin.password"
chmod 644 "$RUN/admin.password"
as_postgres initdb --pgdata "$RUN/primary" --username postgres --pwfile "$RUN/admin.password" --auth scram-sha-256 >/dev/null
as_postgres tee -a "$RUN/primary/postgresql.conf" >/dev/null <<CONF
listen_addresses = '127.0.0.1'
unix_socket_directories = '$RUN/sockets'
max_connections = 200
archive_mode = on
archive_command = 'test ! -f $RUN/archive/%f && cp %p $RUN/archive/%f'
archive_timeout = 60
CONF
echo "host replication replicator 127.0.0.1/32 scram-sha-256" | as_postgres tee -a "$RUN/primary/pg_hba.conf" >/dev/null
as_postgres pg_ctl --pgdata "$RUN/primary" --options "-p $DB1" --log "$RUN/primary/server.log" --wait start >/dev/null
admin() { PGPASSWORD=admin psql --host 127.0.0.1 --username postgres --no-psqlrc --quiet --tuples-only --no-align "$@"; }
PGHOST=127.0.0.1 PGPORT=$DB1 PGUSER=postgres PGPASSWORD=admin OWNER_PASSWORD=owner TEMPORAL_PASSWORD=temporal \
  psql --quiet --set ON_ERROR_STOP=1 --file deploy/postgresql/roles.sql
admin --port $DB1 --command "CREATE ROLE replicator LOGIN REPLICATION PASSWORD 'replicator'"
export PGPASSWORD=replicator
as_postgres env PGPASSWORD=replicator pg_basebackup --host 127.0.0.1 --port $DB1 --username replicator \
  --pgdata "$RUN/backup/base" --checkpoint fast
as_postgres pg_verifybackup "$RUN/backup/base" | sed 's/^/   /'
as_postgres pg_basebackup --dbname "host=127.0.0.1 port=$DB1 user=replicator password=replicator application_name=standby1" \
  --pgdata "$RUN/standby" --write-recovery-conf --create-slot --slot standby1 --checkpoint fast
as_postgres pg_ctl --pgdata "$RUN/standby" --options "-p $DB2" --log "$RUN/standby/server.log" --wait start >/dev/null
admin --port $DB1 --command "ALTER SYSTEM SET synchronous_standby_names = 'standby1'"
admin --port $DB1 --command "SELECT pg_reload_conf()" >/dev/null
is_synchronous() { [ "$(admin --port $DB1 --command "SELECT sync_state FROM pg_stat_replication")" = sync ]; }
until_true 20 "the standby is synchronous" is_synchronous

## Temporal (docs/servers.md)

export SQL_PLUGIN=postgres12 SQL_HOST=127.0.0.1 SQL_USER=temporal SQL_PASSWORD=temporal
temporal_schema() {
  SQL_PORT=$DB1 temporal-sql-tool --db temporal setup-schema -v 0.0
  SQL_PORT=$DB1 temporal-sql-tool --db temporal update-schema --schema-name postgresql/v12/temporal
  SQL_PORT=$DB1 temporal-sql-tool --db temporal_visibility setup-schema -v 0.0
  SQL_PORT=$DB1 temporal-sql-tool --db temporal_visibility update-schema --schema-name postgresql/v12/visibility
}
printf 'limit.maxIDLength:\n  - value: 255\n' >"$RUN/dynamic.yaml"
start_temporal() {
  background temporal env DB=postgres12 DB_PORT="$1" POSTGRES_SEEDS=127.0.0.1 POSTGRES_USER=temporal POSTGRES_PWD=temporal \
    NUM_HISTORY_SHARDS=512 DYNAMIC_CONFIG_FILE_PATH="$RUN/dynamic.yaml" LOG_LEVEL=warn \
    FRONTEND_GRPC_PORT=$TEMPORAL_PORT FRONTEND_HTTP_PORT=27243 FRONTEND_MEMBERSHIP_PORT=26933 \
    HISTORY_GRPC_PORT=27234 HISTORY_MEMBERSHIP_PORT=26934 MATCHING_GRPC_PORT=27235 MATCHING_MEMBERSHIP_PORT=26935 \
    WORKER_GRPC_PORT=27239 WORKER_MEMBERSHIP_PORT=26939 PPROF_PORT=27936 \
    temporal-server --allow-no-auth start
}
is_temporal_up() { "$TEMPORAL_CLI" operator cluster health; }
create_namespace() { "$TEMPORAL_CLI" operator namespace create --namespace default --retention 720h; }

step "Temporal $(temporal-server --version | awk '{print $NF}') on PostgreSQL: schema, server, namespace"
temporal_schema >"$RUN/schema.log" 2>&1
start_temporal $DB1
until_true 60 "Temporal is up" is_temporal_up
until_true 30 "the namespace is made" create_namespace
saw "$("$TEMPORAL_CLI" operator namespace describe --namespace default | grep -i retention | tr -s ' ')"

## The service (docs/operations.md)

step "doubles, PgBouncer, schema, two APIs and two workers, HAProxy"
background clients node bench/trialClients.ts "$RUN"
until_true 20 "Stripe's double is up" test -f "$RUN/doubles.env"
. "$RUN/doubles.env"
printf '"impact_app" "app"\n' >"$RUN/userlist.txt"
pooler_config() {
  cat >"$RUN/pgbouncer.ini" <<CONF
[databases]
impact = host=127.0.0.1 port=$1

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $POOLER
unix_socket_dir =
auth_type = scram-sha-256
auth_file = $RUN/userlist.txt
pool_mode = transaction
default_pool_size = 20
CONF
}
pooler_config $DB1
chmod 644 "$RUN"/*.txt "$RUN"/*.ini
if [ "$(id -u)" = 0 ]; then
  background pgbouncer pgbouncer --user postgres "$RUN/pgbouncer.ini"
else
  background pgbouncer pgbouncer "$RUN/pgbouncer.ini"
fi

POOLED=postgres://impact_app:app@127.0.0.1:$POOLER/impact
DIRECT=postgres://impact_app:app@127.0.0.1:$DB1,127.0.0.1:$DB2/impact
OWNER=postgres://impact_owner:owner@127.0.0.1:$DB1,127.0.0.1:$DB2/impact
export PUBLIC_BASE_URL=https://impact.example.org TRUSTED_PROXIES=1 LOG_FORMAT=json LOG_LEVEL=info
export PLANTING_ORDER_INTERVAL_SECONDS=5 PLANTING_POLL_INTERVAL_SECONDS=2
export SIMULATED_ALLOCATION_SECONDS=5 SIMULATED_PLANTING_SECONDS=5 SIMULATED_VERIFICATION_SECONDS=5
export DATABASE_URL=$DIRECT DATA_DIR=$RUN/data
DATABASE_OWNER_URL=$OWNER impact migrate | sed 's/^/   /'
admin --port $DB1 --command "ALTER ROLE impact_app SET statement_timeout = '60s'"
admin --port $DB1 --command "ALTER ROLE impact_app SET idle_in_transaction_session_timeout = '60s'"

start_api() {
  background "api$1" env DATABASE_URL="$POOLED" PORT=$((28079 + $1)) STORE_PORT=$((28179 + $1)) METRICS_PORT=$((29463 + $1)) node api/main.ts
}
start_worker() { background "worker$1" env WORKER_METRICS_PORT=$((29563 + $1)) node worker/main.ts; }
until_true 20 "the pooler is connected" psql "$POOLED" --command "SELECT 1"
start_api 1
start_api 2
start_worker 1
start_worker 2
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=impact.example.org \
  -addext subjectAltName=DNS:impact.example.org,DNS:store.impact.example.org -keyout "$RUN/key.pem" -out "$RUN/cert.pem" 2>/dev/null
cat "$RUN/cert.pem" "$RUN/key.pem" >"$RUN/impact.pem"
sed -e "s|log /dev/log local0|log stdout format raw local0|" -e "s|maxconn 20000|maxconn 2000|" \
  -e "s|bind :443 ssl crt /etc/ssl/impact/impact.pem|bind 127.0.0.1:$HTTPS ssl crt $RUN/impact.pem|" -e "s|bind :80|bind 127.0.0.1:28090|" \
  -e "s|10.0.0.1:8080|127.0.0.1:28080|" -e "s|10.0.0.2:8080|127.0.0.1:28081|" \
  -e "s|10.0.0.1:8081|127.0.0.1:28180|" -e "s|10.0.0.2:8081|127.0.0.1:28181|" \
  -e "s|src 203.0.113.0/24|src 127.0.0.1|" deploy/haproxy/haproxy.cfg >"$RUN/haproxy.cfg"
haproxy -c -f "$RUN/haproxy.cfg" | sed 's/^/   /'
background haproxy haproxy -db -f "$RUN/haproxy.cfg"
call() {
  local path=$1
  shift
  curl -sS --fail-with-body --cacert "$RUN/cert.pem" --resolve "impact.example.org:$HTTPS:127.0.0.1" "https://impact.example.org:$HTTPS$path" "$@"
}
is_healthy() { impact doctor >"$RUN/doctor.txt" 2>&1; }
for port in 28080 28081; do
  until_true 60 "the API at $port is ready" curl -sS --fail "http://127.0.0.1:$port/readyz"
done
until_true 90 "HAProxy serves" call /readyz
until_true 120 "doctor is content" is_healthy
cut -c1-100 "$RUN/doctor.txt" | grep -E 'pooler|usage senders|processor' | sed 's/^/   /'
saw "through the pooler: $(DATABASE_URL=$POOLED impact doctor 2>/dev/null | grep 'database pooler' | tr -s ' ')"

KEYS=$(impact org create --name Trial --stripe-customer "$CUSTOMER" --stripe-subscription "$SUBSCRIPTION" --json 2>/dev/null)
field() { node -pe 'JSON.parse(process.argv[1])[process.argv[2]]' "$KEYS" "$1"; }
ORG=$(field id) LIVE=$(field api_key_prod) TEST=$(field api_key_test)
impact org update "$ORG" --charity-provider everyorg >/dev/null
printf 'PORT=%s\nKEY=%s\nCA=%s\nDATABASE=%s' $HTTPS "$LIVE" "$RUN/cert.pem" "$DIRECT" >"$RUN/clients.part"
json() { call "$1" -H "Authorization: $2" -H 'Content-Type: application/json' -d "$3"; }

## Own Temporal

step "one registration, one donation to a remote provider's charity, one planting order"
json /plant/trees "$LIVE" '{"count": 3, "idempotency_key": "first"}' >"$RUN/first.json"
FIRST=$(node -pe 'JSON.parse(require("fs").readFileSync(process.argv[1])).tree_details[0].id' "$RUN/first.json")
is_reported() { impact usage show "$1" | grep -q delivered; }
until_true 30 "the registration is billed" is_reported "$FIRST"
saw "donation: $(json /charities/donate "$TEST" '{"amount_cents": 500, "ein": "222222221", "idempotency_key": "d1"}' | cut -c1-120)"
is_planted() { call "/evidence/trees/$1" -H "Authorization: $LIVE" | grep -q planted_and_verified; }
orders() { impact evidence order list --org "$ORG" 2>/dev/null; }
has_order() { orders | grep -q po_; }
until_true 60 "a planting order exists" has_order
orders | sed 's/^/   /' | cut -c1-150

step "Temporal restarted in the middle of the order, with registrations meanwhile"
stop temporal
json /plant/trees "$LIVE" '{"count": 2, "idempotency_key": "while-down"}' >"$RUN/down.json"
saw "a registration while Temporal is down is accepted; donation: $(json /charities/donate "$TEST" '{"amount_cents": 100, "ein": "222222221", "idempotency_key": "d2"}' | cut -c1-80 || true)"
DOWN=$(node -pe 'JSON.parse(require("fs").readFileSync(process.argv[1])).tree_details[0].id' "$RUN/down.json")
sleep 5
start_temporal $DB1
until_true 60 "Temporal is up" is_temporal_up
until_true 90 "the registration is billed" is_reported "$DOWN"
has_verified_order() { orders | grep -q planted_and_verified; }
until_true 120 "the order is planted and verified" has_verified_order

step "Temporal's whole database lost in the middle of another order and of a refund"
json /plant/trees "$LIVE" '{"count": 7, "idempotency_key": "third"}' >"$RUN/third.json"
THIRD=$(node -pe 'JSON.parse(require("fs").readFileSync(process.argv[1])).tree_details[0].id' "$RUN/third.json")
has_two_orders() { [ "$(orders | grep -c po_)" -ge 2 ]; }
until_true 60 "another order exists" has_two_orders
json /refund/trees "$LIVE" "{\"id\": \"$THIRD\", \"count\": 2}" >/dev/null
stop temporal KILL
for database in temporal temporal_visibility; do
  admin --port $DB1 --command "DROP DATABASE $database WITH (FORCE)"
  admin --port $DB1 --command "CREATE DATABASE $database OWNER temporal"
  admin --port $DB1 --command "REVOKE CONNECT, TEMPORARY ON DATABASE $database FROM PUBLIC"
done
temporal_schema >>"$RUN/schema.log" 2>&1
start_temporal $DB1
until_true 60 "Temporal is up" is_temporal_up
until_true 30 "the namespace is made" create_namespace
json /plant/trees "$LIVE" '{"count": 1, "idempotency_key": "after-loss"}' >"$RUN/after.json"
AFTER=$(node -pe 'JSON.parse(require("fs").readFileSync(process.argv[1])).tree_details[0].id' "$RUN/after.json")
until_true 150 "a new registration is billed" is_reported "$AFTER"
until_true 30 "the refunded one is billed" is_reported "$THIRD"
# The order whose workflow was lost is started again after 30 minutes; new trees are ordered as soon as the schedule is back.
both_verified() { [ "$(orders | grep -c planted_and_verified)" -ge 2 ]; }
until_true 180 "the trees of the new registration are planted and verified" both_verified
until_true 60 "doctor is content" is_healthy

## The trial

step "load for $LOAD_SECONDS s: a rolling restart, a killed worker, a failover"
mv "$RUN/clients.part" "$RUN/clients.env"
LOAD_BEGUN=$SECONDS
sleep 10
server_starts() { grep -c "Server impact_standalone/api$1 is UP" "$RUN/haproxy.log" || true; }
for number in 1 2; do
  before=$(server_starts $number)
  stop "api$number"
  start_api $number
  is_back() { [ "$(server_starts $number)" -gt "$before" ]; }
  until_true 60 "HAProxy has api$number again" is_back
done
step "a worker is killed"
stop worker1 KILL
sleep 15
start_worker 1

step "failover: workers stopped, the primary killed, the standby promoted"
stop worker1
stop worker2
as_postgres pg_ctl --pgdata "$RUN/primary" stop --mode immediate >/dev/null
admin --port $DB2 --command "SELECT pg_promote()" >/dev/null
saw "last replayed: $(admin --port $DB2 --command "SELECT pg_last_xact_replay_timestamp()")"
admin --port $DB2 --command "ALTER SYSTEM RESET synchronous_standby_names"
admin --port $DB2 --command "SELECT pg_reload_conf()" >/dev/null
# The pooler has one address, so it is told of the new one.
pooler_config $DB2
kill -HUP "${PIDS[pgbouncer]}"
stop temporal
start_temporal $DB2
until_true 60 "Temporal is up with the new primary" is_temporal_up
start_worker 1
start_worker 2
impact deployment take-over --reason "failover to db2" 2>&1 | sed 's/^/   /'
impact usage release --reason "synchronous standby" 2>&1 | sed 's/^/   /'
until_true 90 "doctor is content" is_healthy
while [ $((SECONDS - LOAD_BEGUN)) -lt "$LOAD_SECONDS" ]; do sleep 1; done

step "the clients stop, and everything is compared"
touch "$RUN/clients.stop"
until_true 180 "the comparison has ended" test -f "$RUN/done"
sed 's/^/   /' "$RUN/clients.log"
saw "HAProxy's own 5xx: $(grep -cE '" 5[0-9][0-9] ' "$RUN/haproxy.log" || true)"
impact usage reconcile 2>&1 | sed 's/^/   /' || true
grep -q ok "$RUN/done"

#!/bin/bash
# A MySQL replica whose data directory is empty whenever it starts, since it is in memory: clones the primary, follows it,
# and stays in the foreground. Arguments are passed on to mysqld. Ends with its exit status; whoever runs it starts it
# again, and it fills itself again. What it takes from the environment: see common.sh.
# shellcheck source=docker/replica/common.sh
. "$(dirname "$0")/common.sh"

# A clone ends in a restart: with a parent that is told of, mysqld ends with status 16 instead of starting itself.
export MYSQLD_PARENT_PID=$$

copy() {
    cat >"$work/clone.sql" <<EOF
SET GLOBAL clone_valid_donor_list = $(quoted "$PRIMARY_HOST:$PRIMARY_PORT");
CLONE INSTANCE FROM $(quoted "$REPLICATION_USER")@$(quoted "$PRIMARY_HOST"):$PRIMARY_PORT IDENTIFIED BY $(quoted "$REPLICATION_PASSWORD");
EOF
    mysqld --no-defaults --initialize-insecure --datadir="$DATADIR" "$@" || return 1
    start mysqld --no-defaults --datadir="$DATADIR" --socket="$work/copy.sock" --skip-networking --mysqlx=OFF \
        --pid-file="$work/copy.pid" --plugin-load-add=mysql_clone.so --init-file="$work/clone.sql" "$@"
    local status=0
    wait_for_server || status=$?
    [ "$status" = 16 ]
}

serve() {
    cat >"$work/follow.sql" <<EOF
CHANGE REPLICATION SOURCE TO SOURCE_HOST = $(quoted "$PRIMARY_HOST"), SOURCE_PORT = $PRIMARY_PORT, SOURCE_USER = $(quoted "$REPLICATION_USER"), SOURCE_PASSWORD = $(quoted "$REPLICATION_PASSWORD"), SOURCE_AUTO_POSITION = 1, SOURCE_CONNECT_RETRY = 1, GET_SOURCE_PUBLIC_KEY = 1;
START REPLICA;
EOF
    start mysqld --no-defaults --datadir="$DATADIR" --socket="$DATADIR/mysqld.sock" --pid-file="$DATADIR/mysqld.pid" \
        --gtid-mode=ON --enforce-gtid-consistency=ON --read-only=ON --super-read-only=ON --skip-replica-start \
        --relay-log=relay --concurrent-insert=NEVER --init-file="$work/follow.sql" "$@"
}

replica "$@"

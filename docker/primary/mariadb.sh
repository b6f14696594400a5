#!/bin/bash
# Run once by the image, on a new primary: the accounts of the replica and of the proxy, with no more rights than they
# need. The replica dumps the primary's data and follows it.
set -euo pipefail

# A quote in a password must not end the string.
quoted() { printf "'%s'" "${1//\'/\'\'}"; }

mariadb --user=root --password="$MARIADB_ROOT_PASSWORD" <<EOF
SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES');
CREATE USER 'replication'@'%' IDENTIFIED BY $(quoted "$REPLICATION_PASSWORD");
GRANT REPLICATION SLAVE, BINLOG MONITOR, SELECT, SHOW VIEW, TRIGGER, EVENT, RELOAD ON *.* TO 'replication'@'%';
CREATE USER 'ramsplit'@'%' IDENTIFIED BY $(quoted "$MONITOR_PASSWORD");
GRANT REPLICA MONITOR ON *.* TO 'ramsplit'@'%';
GRANT SELECT ON mysql.user TO 'ramsplit'@'%';
EOF

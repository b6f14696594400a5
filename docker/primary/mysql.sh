#!/bin/bash
# Run once by the image, on a new primary: the accounts of the replica and of the proxy, with no more rights than they
# need. The replica clones the primary's data (BACKUP_ADMIN) and follows it.
set -euo pipefail

# A quote in a password must not end the string.
quoted() { printf "'%s'" "${1//\'/\'\'}"; }

mysql --user=root --password="$MYSQL_ROOT_PASSWORD" <<EOF
SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES');
CREATE USER 'replication'@'%' IDENTIFIED BY $(quoted "$REPLICATION_PASSWORD");
GRANT REPLICATION SLAVE, BACKUP_ADMIN ON *.* TO 'replication'@'%';
CREATE USER 'ramsplit'@'%' IDENTIFIED BY $(quoted "$MONITOR_PASSWORD");
GRANT REPLICATION CLIENT ON *.* TO 'ramsplit'@'%';
EOF

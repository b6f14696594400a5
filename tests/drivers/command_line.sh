#!/bin/sh
# A command line client, MySQL's or MariaDB's, as $1. Errors are part of what it says.
set -eu
client=$1
shift
export MYSQL_PWD="$4"

address="--host=$1 --port=$2 --user=$3"
schema=$5

ask() {
    # shellcheck disable=SC2086 # options without spaces
    "$client" --no-defaults $address --protocol=tcp --default-character-set=utf8mb4 --force --table --column-type-info \
        "$@" "$schema" 2>&1
}

awk 'BEGIN { RS = "" } { print $0 "$$" }' tables.sql | ask --delimiter='$$'
ask --show-warnings <command_line.sql
for number in $(seq 25); do
    echo "SELECT n FROM numbers WHERE n = $number;"
done | ask
echo end

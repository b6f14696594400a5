#!/bin/sh
# Makes the drivers available that the tests compare and prints the folder of those that the release has
# no package of.
#
# apt installs the interpreters and drivers that Debian and Ubuntu have; pip and npm put the others, in the versions
# of tests/drivers/requirements.txt and package.json, into ${XDG_CACHE_HOME:-~/.cache}/ramsplit/drivers. No service
# is set up or started.
#
# RAMSPLIT_NO_INSTALL=1     install nothing: say what is missing and exit 1
set -eu

here=$(cd "$(dirname "$0")/../tests/drivers" && pwd)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/ramsplit/drivers

say() { echo "drivers: $*" >&2; }
fail() { say "$*"; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# What is missing, as names of packages.
missing() {
    /usr/bin/python3 -c 'import pymysql' 2>/dev/null || echo python3-pymysql
    /usr/bin/python3 -c 'import MySQLdb' 2>/dev/null || echo python3-mysqldb
    /usr/bin/python3 -c 'import sqlalchemy' 2>/dev/null || echo python3-sqlalchemy
    /usr/bin/python3 -c 'import ensurepip' 2>/dev/null || echo python3-venv
    command -v go >/dev/null || echo golang-go
    [ -d /usr/share/gocode/src/github.com/go-sql-driver/mysql ] || echo golang-github-go-sql-driver-mysql-dev
    command -v javac >/dev/null || echo default-jdk-headless
    [ -e /usr/share/java/mariadb-java-client.jar ] || echo libmariadb-java
    php -r 'exit(extension_loaded("mysqli") && extension_loaded("pdo_mysql") ? 0 : 1);' 2>/dev/null ||
        echo php-cli php-mysql
    perl -MDBD::mysql -e 1 2>/dev/null || echo libdbd-mysql-perl
    perl -MDBD::MariaDB -e 1 2>/dev/null || echo libdbd-mariadb-perl
    command -v node >/dev/null || echo nodejs
    command -v npm >/dev/null || echo npm
    command -v mariadb >/dev/null || echo mariadb-client
}

install_packages() {
    packages=$(missing)
    [ -n "$packages" ] || return 0
    # shellcheck disable=SC2086 # a list of names
    set -- $packages
    command -v apt-get >/dev/null || fail "no apt here; missing: $*"
    [ -z "${RAMSPLIT_NO_INSTALL:-}" ] || fail "missing: $*. Unset RAMSPLIT_NO_INSTALL to have apt install them"
    say "apt installs $*; RAMSPLIT_NO_INSTALL=1 says no"
    as_root apt-get -qq -o Acquire::Retries=3 update >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Acquire::Retries=3 install \
        --no-install-recommends "$@" >&2
    packages=$(missing)
    [ -z "$packages" ] || fail "still missing after the installation: $packages"
}

# Again only when the versions that are asked for have changed.
install_others() {
    wanted=$(cat "$here/requirements.txt" "$here/package.json" "$here/package-lock.json" | cksum)
    [ "$(cat "$folder/installed" 2>/dev/null)" != "$wanted" ] || return 0
    [ -z "${RAMSPLIT_NO_INSTALL:-}" ] ||
        fail "missing: mysql-connector-python and mysql2. Unset RAMSPLIT_NO_INSTALL to have them put into $folder"
    say "pip and npm put mysql-connector-python and mysql2 into $folder; RAMSPLIT_NO_INSTALL=1 says no"
    rm -rf "$folder"
    mkdir -p "$folder"
    /usr/bin/python3 -m venv "$folder/venv" >&2
    "$folder/venv/bin/pip" -q --disable-pip-version-check install -r "$here/requirements.txt" >&2
    cp "$here/package.json" "$here/package-lock.json" "$folder/"
    npm --prefix "$folder" ci --silent --no-audit --no-fund >&2
    echo "$wanted" >"$folder/installed"
}

install_packages
mkdir -p "$(dirname "$folder")"
# One at a time: a second caller waits here and finds the work done.
exec 9>"$folder.lock"
flock 9
install_others
echo "$folder"

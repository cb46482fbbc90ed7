#!/bin/sh
# loopback.sh COMMAND...: runs it where no other machine can be reached, or reach it, and where nothing outlives it.
# A network of its own with nothing but loopback, a host name of its own, and a table of processes of its own: the
# kernel ends all of them with the first, however that ended. Needs root, or user namespaces.
# (127.0.0.2: names are not looked up where 127.0.0.1 is the only address, not even localhost.)
set -eu
[ "$(id -u)" = 0 ] && map= || map=--map-root-user
exec unshare $map --net --pid --uts --fork --kill-child --mount-proc \
    sh -c 'hostname localhost && ip link set lo up && ip address add 127.0.0.2/8 dev lo && "$@"' sh "$@"

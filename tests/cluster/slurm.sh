#!/bin/sh
# slurm.sh COMMAND...: runs it on a SLURM of its own, one node with two cores, from Debian's packages:
#   apt-get install --no-install-recommends slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins
# Everything it keeps is in a temporary folder, and it listens on 127.0.0.1 only. Meant to be called through
# loopback.sh, where its ports cannot be anyone else's, its host name is "localhost", and its daemons end with it.
set -eu

folder=$(mktemp -d -t daemons-XXXXXX)
[ ${#folder} -le 60 ] || { echo "slurm.sh: $folder is too long a path for sockets; TMPDIR sets another" >&2; exit 1; }
daemons=
stop() {
    for daemon in $daemons; do kill "$daemon" 2>/dev/null || true; done
    wait
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 143' INT TERM

# await NAME COMMAND...: until the command succeeds. What has ended by itself, or takes half a minute, has failed.
await() {
    name=$1
    shift
    tries=0
    until timeout 5 "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ $tries -gt 100 ] || ! kill -0 "${daemons%% *}"; then
            echo "slurm.sh: $name did not start:" >&2
            tail -n 20 "$folder/$name.out" >&2
            exit 1
        fi
        sleep 0.1
    done
}

chmod 755 "$folder"  # munge's socket must be in a folder that all may enter
head -c 1024 /dev/urandom > "$folder/munge.key"
chmod 600 "$folder/munge.key"
munged --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
    --pid-file="$folder/munged.pid" --seed-file="$folder/munge.seed" --log-file="$folder/munged.log" \
    >"$folder/munged.out" 2>&1 &
daemons=$!
await munged munge --no-input --socket="$folder/munge.socket"

cat > "$folder/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
NodeName=$(hostname -s) NodeAddr=127.0.0.1 CPUs=2 RealMemory=16384 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
mkdir "$folder/state" "$folder/spool"
export SLURM_CONF="$folder/slurm.conf"
slurmctld -D >"$folder/slurmctld.out" 2>&1 &
daemons="$! $daemons"
await slurmctld scontrol ping
slurmd -D >"$folder/slurmd.out" 2>&1 &
daemons="$! $daemons"
await slurmd sh -c 'sinfo --noheader --format=%T | grep -q idle'
echo "slurm.sh: $(sinfo --version), $(sinfo --noheader --format='partition %R, %D node, %c cores, %T')" >&2

status=0
"$@" || status=$?
exit $status

#!/bin/sh
# examples/train.sbatch under a real Slurm: controller and node of one machine, in a folder of their
# own, without munge and without accounts. Needs Debian's slurmctld, slurmd and slurm-client;
# nothing of the machine's own Slurm is touched.
#
#     slurmctld ── slurmd ── sbatch --wait ── train.sbatch ── srun ── 2 ranks
set -u
source=$1
build=$2
PATH=$PATH:/usr/sbin

skip() {
    echo "skipped: $*"
    exit 77
}

find_tool() { # Debian names them slurmd-wlm; alternatives lead there
    command -v "$1" || command -v "$1-wlm"
}
for tool in slurmctld slurmd slurmstepd sbatch srun sinfo scancel scontrol; do
    find_tool "$tool" >/dev/null || skip "there is no $tool"
done
plugins=$(find /usr/lib -name auth_none.so 2>/dev/null | head -n 1)
[ -n "$plugins" ] || skip "this Slurm has no auth/none"

folder=$(mktemp -d /tmp/gyre-slurm-XXXXXX)
controller='' node=''
clean() {
    [ -z "$node" ] || kill "$node" 2>/dev/null
    [ -z "$controller" ] || kill "$controller" 2>/dev/null
    wait
    rm -rf "$folder"
}
trap clean EXIT
trap 'exit 1' HUP INT TERM

fail() {
    echo "program/job/slurm: $*"
    tail -n 5 "$folder"/*.log "$folder"/*.txt 2>/dev/null
    exit 1
}

# --- a cluster ------------------------------------------------------------------------------------

mkdir "$folder/state" "$folder/spool" "$folder/home"
ln -s "$build" "$folder/build"
host=$(hostname -s)
port=$((20000 + $$ % 10000 * 2))
cat >"$folder/slurm.conf" <<TEXT
ClusterName=gyre
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/none
CredType=cred/none
SlurmUser=$(whoami)
SlurmdUser=$(whoami)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
PluginDir=${plugins%/*}
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
SlurmdParameters=config_overrides
TEXT
export SLURM_CONF="$folder/slurm.conf" HOME="$folder/home"
"$(find_tool slurmctld)" -D -c >"$folder/slurmctld.log" 2>&1 &
controller=$!
"$(find_tool slurmd)" -D -d "$(find_tool slurmstepd)" >"$folder/slurmd.log" 2>&1 &
node=$!
tries=0
until timeout 5 sinfo -h -o %t 2>/dev/null | grep -q idle; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] ||
        skip "no node of this Slurm became idle: $(tail -n 1 "$folder/slurmd.log")"
    kill -0 $node 2>/dev/null || skip "slurmd ended: $(tail -n 1 "$folder/slurmd.log")"
    sleep 0.2
done

# --- jobs -----------------------------------------------------------------------------------------

# All at once, since sbatch asks after the end of its job ever less often.
running=
submit() { # a name, then words of train.sbatch; leaves its output in NAME.txt, its end in NAME.end
    name=$1
    shift
    {
        timeout 200 sbatch --wait --job-name="$name" --nodes=1 --ntasks-per-node=2 \
            --chdir="$folder" --output="$folder/$name.txt" \
            "$source/examples/train.sbatch" "$@" >/dev/null 2>&1
        echo $? >"$folder/$name.end"
    } &
    running="$running $!"
}

ended() { cat "$folder/$1.end"; }
says() { grep -q "$2" "$folder/$1.txt"; }

number_of() {
    scontrol show jobs 2>/dev/null | sed -n "s/^JobId=\([0-9]*\) JobName=$1\$/\1/p"
}
await() { # what is waited for, then a command
    what=$1
    shift
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || fail "$what did not come"
        sleep 0.1
    done
}
has_saved() { ls -d "$folder/long"/step-* >/dev/null 2>&1; }
is_queued_again() {
    scontrol show job "$long" | grep -q JobState=PENDING && says long 'stopped by a signal'
}

submit example
submit wine "$build/gyre" train --preset wine --epochs 2
submit vine "$build/gyre" train --preset vine
submit long "$build/gyre" train --data random:4000,100,10 --layers 100,200,10 --epochs 40 \
    --save "$folder/long" --resume

# The job that is told of its limit: saved, queued again, and gone on with.
await 'the first checkpoint' has_saved
long=$(number_of long)
scancel --batch --signal=USR1 "$long"
await 'the job in the queue' is_queued_again
scontrol update JobId="$long" StartTime=now

# shellcheck disable=SC2086 # the numbers are words
wait $running
[ "$(ended example)" = 0 ] || fail "the example's own training ended with $(ended example)"
says example 'epoch 100/100' || fail "it does not tell how well it ended"
ls -d "$folder"/training_*/step-* >/dev/null 2>&1 || fail "it has saved nothing"
[ "$(ended wine)" = 0 ] || fail "gyre train ended with $(ended wine)"
says wine '2 ranks on 1 node' || fail "no two ranks found each other"
[ "$(ended vine)" != 0 ] || fail "a wrong word ended well"
says vine 'did you mean' || fail "a wrong word is not told"
[ "$(ended long)" = 0 ] || fail "the job that was queued again ended with $(ended long)"
says long 'epoch 40/40' || fail "the job that was queued again did not reach its last epoch"
[ "$(grep -c 'epoch 1/40' "$folder/long.txt")" = 1 ] ||
    fail 'the job that was queued again began anew'
echo "examples/train.sbatch trains under $(sbatch --version), and goes on when it is queued again"

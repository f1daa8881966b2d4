#!/bin/sh
# gyre doctor between two hosts that are network namespaces with a veth pair between them: what it
# finds where packets are dropped, rejected, too large, or have no way. Everything is made in
# namespaces of the test's own, and goes with it. Exit 77 where that is not permitted.
set -u
if [ "${3:-}" != inside ]; then
    for tool in unshare ip nft; do
        command -v $tool >/dev/null || { echo "skipped: there is no $tool here"; exit 77; }
    done
    unshare -m -n true 2>/dev/null || {
        echo "skipped: namespaces are not permitted here"
        exit 77
    }
    # The parts wait most of the time, so they run beside each other.
    parts=
    for part in ways settings walls; do
        unshare -m -n "$0" "$1" "$2" inside $part &
        parts="$parts $!"
    done
    failed=0
    for part in $parts; do
        wait "$part"
        code=$?
        [ $code = 0 ] || [ $failed = 1 ] || failed=$code
    done
    exit $failed
fi
gyre=$2/gyre
part=$4
offences=0
unset $(env | sed -n 's/^\(GYRE_[A-Z_]*\)=.*/\1/p') GYRE_NONE
set_up() {
    mount -t tmpfs tmpfs /run && mkdir /run/netns && ip netns add one && ip netns add two &&
        ip link add to_two netns one type veth peer name to_one netns two &&
        ip -n one address add 10.77.0.1/24 dev to_two &&
        ip -n two address add 10.77.0.2/24 dev to_one &&
        ip -n one link set to_two up && ip -n two link set to_one up &&
        ip -n one link set lo up && ip -n two link set lo up &&
        ip netns exec two nft 'add table t; add chain t in { type filter hook input priority 0; }'
}
set_up || { echo "skipped: no two namespaces with a firewall can be made here"; exit 77; }
folder=/run/test
mkdir -m 700 $folder
export HOME=$folder

cat >$folder/ssh <<'END'
#!/bin/sh
case $1 in 10.77.0.1) name=one ;; 10.77.0.2) name=two ;; esac
[ $name = two ] && [ -n "${STARVED:-}" ] || exec ip netns exec $name sh -c "$2"
# It gets no core for a while from its answer on that follows its port: then it is tried.
ip netns exec two setsid sh -c "echo \$\$ >$HOME/agent; $2" | while IFS= read -r line; do
    case $line in
    'fact port '*) answers=0 ;;
    done) answers=${answers:+$((answers + 1))} ;;
    esac
    if [ "${answers:-}" = 2 ]; then
        group=-$(cat "$HOME/agent") answers=
        kill -s STOP -- "$group"
        (sleep 6; kill -s CONT -- "$group") >/dev/null &
    fi
    printf '%s\n' "$line"
done
END
chmod +x $folder/ssh
export GYRE_SSH=$folder/ssh

offend() { # what, and the output that it was found in
    echo "$*"
    cat $folder/out*
    offences=$((offences + 1))
}

# Each pattern is one of a line of the output.
look_for() { # what, file, patterns
    what=$1 file=$2
    shift 2
    for pattern; do
        grep -q -- "$pattern" "$file" || offend "$what: \"$pattern\""
    done
}

firewall() { # rules of the second host
    ip netns exec two nft "flush chain t in; ${1:+add rule t in $1}"
}

# What is said of the way there; the way back is fine.
expect_way() { # what, patterns
    what=$1
    shift
    "$gyre" doctor --hosts 10.77.0.1,10.77.0.2 >$folder/out 2>&1
    look_for "$what" $folder/out "$@" '^10.77.0.2 → 10.77.0.1  *ok  *10.77.0.1:.* a job takes TCP$'
}

syn='tcp flags syn / syn,ack'
ways() {
    there='^10.77.0.1 → 10.77.0.2 '
    firewall ''
    expect_way plain \
        "$there *ok  *10.77.0.2:[0-9]*: [0-9]* us there and back, .* Gbit/s; a job ta" \
        '^clocks  *ok  *at most [0-9.]* ms from 10.77.0.1'
    export STARVED=1 # for longer than sent packets may go astray
    expect_way starved "$there *ok  *10.77.0.2:[0-9]*: .* a job takes TCP$"
    unset STARVED
    firewall "$syn drop"
    expect_way dropped "$there *problem  *10.77.0.2:[0-9]* does not answer within 4 s$" \
        'drops the packets' 'open them on 10.77.0.2$' '^clocks  *ok  *at most'
    firewall "$syn reject with tcp reset"
    expect_way rejected "$there *problem  *10.77.0.2:[0-9]* refuses the connection$" 'rejects it'
    firewall "$syn reject with icmp type admin-prohibited"
    expect_way prohibited "$there *problem  *there is no route to 10.77.0.2:" 'prohibited'
    # Of the way there alone: the way back has answers that are longer after a loss.
    export GYRE_PORT_RANGE=31000-31009
    firewall 'tcp dport 31000-31009 meta length > 1000 drop'
    expect_way large \
        "$there *problem  *small messages pass to 10.77.0.2:.* (segments of 14.. bytes)$"
    firewall 'tcp dport 31000-31009 meta length > 60 drop'
    expect_way mute "$there *problem  *10.77.0.2:[0-9]* takes the connection and then says nothing$"
    firewall "tcp dport != 31000-31009 $syn drop"
    expect_way 'a range' "$there *ok  *10.77.0.2:3100[0-9]: "
    unset GYRE_PORT_RANGE
    firewall ''
}

# A job: the second rank finds the first by MASTER_ADDR.
rank() { # namespace, rank, variables …
    name=$1 number=$2 wait=$second_waits
    [ "$number" = 0 ] && wait=$first_waits
    shift 2
    ip netns exec "$name" env RANK="$number" WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 \
        MASTER_PORT=29500 "$@" "$gyre" doctor --job --wait "$wait" >$folder/out.$number 2>&1
}

first_waits=6s second_waits=6s
job() { # variables of rank 1 …; sets both codes
    rank one 0 &
    first=$!
    rank two 1 "$@"
    code_1=$?
    wait $first
    code_0=$?
}

expect_codes() {
    [ "$code_0 $code_1" = "$2" ] || offend "$1: exit codes $code_0 and $code_1, expected $2"
}

settings() {
    first_waits=100s second_waits=100s # which a rank comes to only where it gets no core
    job
    expect_codes 'a job' '0 0'
    host=$(hostname)
    look_for 'a job' $folder/out.0 "^$host  *ok  *gyre " "^$host (rank 1)  *ok  *gyre " \
        '^keys  *ok  *the same everywhere' "^$host → $host (rank 1)  *ok " \
        "^$host (rank 1) → $host  *ok "
    [ -s $folder/out.1 ] && offend 'a job: rank 1 said something'
    job GYRE_LANES=3
    expect_codes 'other settings' '1 0'
    look_for 'other settings' $folder/out.0 '^same_settings  *problem' \
        "unset on $host and 3 on $host (rank 1)"
    second_waits=6s
    for first_waits in 12s 100s; do # a slow rank 1 finds, in the end, that rank 0 has gone
        job GYRE_KEY=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
        grep -q 'hangs up' $folder/out.1 && break
    done
    expect_codes 'another key' '1 1'
    look_for 'another key' $folder/out.0 \
        '^rank 1  *problem  *its key is another one: .*, rank 0 has ' 'copy one key file'
    look_for 'another key' $folder/out.1 'hangs up: rank 0 has another key than this one (id '
}

walls() {
    ip netns exec one nft "add table t; add chain t in { type filter hook input priority 0; }
        add rule t in $syn drop"
    job
    expect_codes 'a firewall' '1 1'
    look_for 'a firewall' $folder/out.0 '^rank 1  *problem  *it has not come within 6 s$'
    look_for 'a firewall' $folder/out.1 \
        "rank 1 on .* did not reach rank 0 within 6 s: 10.77.0.1:29500 does not answer within 4 s"
    ip netns exec one nft 'flush chain t in'
    rank two 1
    code=$?
    [ $code = 1 ] || offend "nobody: exit code $code"
    look_for nobody $folder/out.1 'within 6 s: 10.77.0.1:29500 refuses the connection'
    ip -n two link set to_one down
    ip -n one link set to_two down
    rank two 1
    look_for 'no network' $folder/out.1 'did not reach rank 0 within 6 s: there is no route to'
}

$part
[ $offences = 0 ]

#!/bin/sh
# gyre doctor over several hosts, without any: a stand-in for ssh plays agents that say what a test
# wants, real agents on this machine, and ranks of a job. doctor_ways.sh has real networks.
set -u
gyre=$2/gyre
offences=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset $(env | sed -n 's/^\(GYRE_[A-Z_]*\)=.*/\1/p') GYRE_NONE
export HOME="$folder"

# An agent of a host "good", or of one that differs from it in what its name says.
cat >"$folder/ssh" <<'END'
#!/bin/sh
host=$1
say() { printf '%s\n' "$@"; }
case $host in
unreachable) echo "first line" >&2; echo "ssh: no route to $host" >&2; exit 255 ;;
old) echo "gyre doctor: unknown flag '--agent'" >&2; exit 2 ;;
here) exec sh -c "$2" ;;
esac
while read -r word rest; do
    case $word in
    hello)
        case $host in newer) say "fact version 9.9.9" ;; *) say "fact version 1.2.3" ;; esac
        say "fact host $host" "fact system Linux" "fact machine $host" "fact address 192.0.2.1"
        case $host in otherkey) say "fact key 02" ;; *) say "fact key 01" ;; esac
        say "fact key_from file"
        case $host in far*) say "fact slow_start cubic" ;; esac
        [ "$host" = cardless ] || say "fact verbs verbs/mlx5_0:1"
        case $host in
        otherset) say "fact settings GYRE_LANES=3" ;;
        tcp*) say "fact settings GYRE_TRANSPORT=tcp" ;;
        *) say "fact settings " ;;
        esac
        [ "$host" != dies ] || exit 1
        ;;
    check)
        say "finding cores ok" "found four" "finding ports problem" "found none is free"
        say "advice end some" "detail a line" "finding rdma absent" "found none"
        [ "$host" = good ] || say "finding load note" "found busy"
        ;;
    listen) [ "$host" != portless ] || { say "failed no port is free"; continue; }
        say "fact port 7" ;;
    resolve)
        case $rest in *@*) say "failed that is no name"; continue ;; esac
        case $host in
        nameless) say "failed no such name"; continue ;;
        astray) say "fact address 127.0.1.1" ;;
        *) say "fact address 192.0.2.1" ;;
        esac
        ;;
    try)
        case $host in
        refused) say "fact error 111" ;;
        dropped) say "fact error 110" ;;
        routeless) say "fact error 113" ;;
        denied) say "fact error 13" ;;
        lost) say "fact error 0" "fact lost 1" ;;
        stuck) say "fact error 0" "fact stuck 1" "fact segment 1448" ;;
        behind) say "fact error 0" "fact ahead_ms 5000" "fact doubt_ms 0.25" "fact gbit_s 9.5" ;;
        far) say "fact error 0" "fact lost 0" "fact round_trip_us 10000" "fact gbit_s 1" ;;
        *) say "fact error 0" "fact lost 0" "fact round_trip_us 45" "fact gbit_s 9.5" ;;
        esac
        ;;
    bye) exit 0 ;;
    esac
    say "done"
done
END
chmod +x "$folder/ssh"
export GYRE_SSH="$folder/ssh"

offend() { # what, and the output that it was found in
    echo "$*"
    cat "$folder/out"
    offences=$((offences + 1))
}

# Lines of the output must have the patterns, but for those behind "!".
look_for() {
    what=$1
    shift
    for pattern; do
        found='!'
        grep -q -- "${pattern#!}" "$folder/out" && found=
        [ "$found${pattern#!}" = "$pattern" ] || offend "$what: \"$pattern\""
    done
}

expect() { # hosts, the exit code, patterns
    hosts=$1 code=$2
    shift 2
    "$gyre" doctor --hosts "$hosts" >"$folder/out" 2>&1
    ended=$?
    [ $ended = "$code" ] || offend "$hosts: exit code $ended, expected $code"
    look_for "$hosts" "$@"
}

way='^good → '
expect good,me@b 1 '^good  *ok  *gyre 1.2.3, Linux; 2 checks fine, 0 notes, 1 problem$' \
    '^me@b  *ok .* 1 note, 1 problem$' '^good: ports  *problem  *none is free$' '^ *a line$' \
    '→ end some$' '^me@b: load  *note  *busy$' '!good: cores' \
    '^versions  *ok  *gyre 1.2.3 everywhere$' '^same_settings  *ok' \
    '^keys  *ok  *the same everywhere: 01$' '^clocks  *ok  *at most 0.000 ms from good' \
    "${way}me@b  *ok  *192.0.2.1:7: 45 us there and back, 9.5 Gbit/s; a job tries RDMA, then TCP" \
    '^me@b → good  *ok' '^2 problems: good: ports, me@b: ports$'
expect good,cardless 1 "${way}cardless  *ok .*; a job takes TCP$"
expect tcp1,tcp2 1 '^tcp1 → tcp2  *ok .*; a job takes TCP$'
expect good,newer 1 '^versions  *problem  *hosts have different' '^ *newer has 9.9.9$' 'one build'
expect good,otherset 1 '^same_settings  *problem' \
    'GYRE_LANES is unset on good and 3 on otherset' 'set them alike'
expect good,otherkey 1 '^keys  *note  *hosts have different keys' 'good has 01$' 'otherkey has 02$'
expect good,behind 1 '!behind is' # the first host's word counts
expect behind,b 1 '^clocks  *note  *at most 5000.000 ms from behind' \
    '^ *b is 5.000 s ahead of behind, give or take 0.250 ms$' 'jobs do not mind'
expect behind,lost 1 'lost is 5.000 s ahead of behind'
expect lost,behind 1 'behind is 5.000 s behind lost' # the way back tells, too
expect good,refused 1 '^refused → good  *problem  *192.0.2.1:7 refuses the connection$' \
    'open them on good$'
expect good,dropped 1 '^dropped → good  *problem  *192.0.2.1:7 does not answer within 4 s' 'drops'
expect good,routeless 1 '^routeless → good  *problem  *there is no route to 192.0.2.1:7' 'ip route'
expect good,denied 1 '^denied → good  *problem  *192.0.2.1:7 cannot be connected to: Permission'
expect good,lost 1 '^lost → good  *problem  *192.0.2.1:7 takes the connection and then says'
expect good,stuck 1 '^stuck → good  *problem  *small messages pass .* (segments of 1448 bytes)$' \
    'tcp_mtu_probing'
expect good,far 1 '^pauses  *note  *after 0.2 s without a message far begins slowly again (cubic)' \
    'over 10.0 ms there' 'sysctl net.ipv4.tcp_slow_start_after_idle=0'
expect good,farther 1 '!^pauses' # its ways are short
expect good,nameless 1 '^nameless → good  *problem  *nameless does not know the name good: no suc' \
    'DNS'
expect me@good,b 1 '^b → me@good  *ok'
expect good,portless 1 '^good → portless  *problem  *not tried: no port is free$' \
    '^portless → good  *problem  *not tried: no port is free$'
expect good,astray 1 '^astray → good  *problem  *astray knows the name good as 127.0.1.1, which is'
expect good,unreachable 1 \
    '^unreachable  *problem  *no agent: it ended with exit code 255: ssh: no route to unreachabl' \
    'ssh HOST true' '!→ unreachable '
expect good,old 1 "^old  *problem  *no agent: it ended with exit code 2: .*'--agent'" \
    'version of gyre'
expect good,dies 1 '^dies  *problem  *no agent: it ended with exit code 1$'
expect good,b,c,d,e,f,g 1 "!${way}b " \
    '^ways  *ok  *42 are fine: 45 to 45 us there and back, 9.5 to 9.5 Gbit/s$'
expect good,b,c,d,e,f,lost 1 "!${way}b " '^ways  *ok  *36 are fine' '^lost → good  *problem' \
    '^lost → f  *problem'
expect good 2 'names 1 hosts: 2 to 64 are looked at'
expect good: 2 'hosts'

"$gyre" doctor --hosts good,b --json >"$folder/out" 2>&1
look_for json '"check":"way","subject":"good → b","state":"ok","found":"192.0.2.1:7: 45 us' \
    '"figures":{"round_trip_us":45,"gbit_s":9.5}' '"check":"ports","subject":"b: ports"'

# Agents of this machine, twice: no host of its own, but all that is said is real.
"$gyre" doctor --hosts localhost,here >"$folder/out" 2>&1
look_for 'real agents' '^localhost  *ok  *gyre ' '^here  *ok  *gyre ' '^versions  *ok' \
    '^same_settings  *ok' '^keys  *ok' '^clocks  *ok  *at most ' \
    '^localhost → here .*one machine: a job shares memory' '^here → localhost  *ok  *127.0.0.1:'

# Ranks of a job; those of one machine are one host.
"$gyre" run -n 3 --no-prefix "$gyre" doctor --job >"$folder/out" 2>&1
look_for 'a job' '^versions  *ok' "^$(hostname)  *ok  *gyre "
[ "$(grep -c '  gyre [0-9.]*, ' "$folder/out")" = 1 ] || offend 'a job: hosts are told twice'

"$gyre" doctor --job >"$folder/out" 2>&1
look_for 'one rank' 'one rank alone has no ways to try'
"$gyre" doctor --job --hosts a,b >"$folder/out" 2>&1
look_for 'both' 'exclude each other'
[ $offences = 0 ]

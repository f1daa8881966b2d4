# For scripts in a guest: two ranks without a launcher, who would end the one for the other's death;
# something that strikes; and how long it takes until a rank says so. What they say gets the time
# before it, in hundredths of a second.
#
#   pair 29501 COMMAND...      both run it, each with its RANK; returns when they are under way
#   strike kill -9 "$pid1"     now
#   ends 0                     waits for rank 0: its exit code in $code, what it said in $out
#   seconds_until 'rank 1'     from the strike to its line with these words; nothing without one

hundredths() { # since the start, to $now
    read -r now _ </proc/uptime
    now=${now%.*}${now#*.}
}

dated() {
    while IFS= read -r line; do
        hundredths
        echo "$now $line"
    done
}

packets() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }

goes_on() { # waits until so many packets have left
    before=$(packets) tries=0
    while [ "$(packets)" -lt $((before + $1)) ] && [ $tries -lt 300 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
}

pair() { # port, command
    export MASTER_PORT="$1" MASTER_ADDR=127.0.0.1 WORLD_SIZE=2
    shift
    for rank in 0 1; do
        mkfifo "/tmp/line.$rank.$MASTER_PORT"
        dated <"/tmp/line.$rank.$MASTER_PORT" >/tmp/out.$rank &
        RANK=$rank "$@" >"/tmp/line.$rank.$MASTER_PORT" 2>&1 </dev/null &
        eval "pid$rank=$!"
    done
    goes_on 500
}

strike() { # a command
    hundredths
    struck=$now
    "$@"
}

# Waits for a rank, or what else $pid2 is, at most half a minute; where one that does not end is, is
# told.
ends() { # rank
    eval "pid=\$pid$1"
    out=/tmp/out.$1 tries=0 code='none, it hangs'
    while kill -0 "$pid" 2>/dev/null && [ $tries -lt 300 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    if kill -0 "$pid" 2>/dev/null; then
        cat "/proc/$pid/wchan" "/proc/$pid/stack" >>"$out"
        kill -9 "$pid"
        return
    fi
    code=0
    wait "$pid" || code=$?
    sleep 0.1 # its last line is on its way
}

seconds_until() { # words
    awk -v words="$1" -v struck="$struck" '
        $1 >= struck && index($0, words) { printf "%.2f\n", ($1 - struck) / 100; exit }' "$out"
}

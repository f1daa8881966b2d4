#!/bin/sh
# tests/vm/run itself: exit status and output come back as they were, devices are there, a time
# limit and a guest that dies are told apart, no root is needed, and however the runner ends, no
# QEMU and no files of it are left. About five starts of a guest; in the first one two ranks make a
# sum over verbs.
set -u
run=$1/tests/vm/run
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
failures=0
mkdir "$room/folder" "$room/tmp"
export TMPDIR=$room/tmp

expect() { # what, then a command that must succeed
    what=$1
    shift
    if ! "$@" >/dev/null; then
        echo "FAILED: $what (exit code $code)"
        tail -n 40 "$room/out" "$room/err" | sed 's/^/    /'
        failures=$((failures + 1))
    fi
}

vm() { # arguments of the runner; output to $room/out and $room/err, exit code to $code
    code=0
    "$run" "$@" >"$room/out" 2>"$room/err" || code=$?
    [ "$code" != 77 ] || { cat "$room/out" && exit 77; } # no image to be had
}

out_is() { [ "$(cat "$room/out")" = "$1" ]; }
err_says() { grep -q "$1" "$room/err"; }
nothing_left() { [ -z "$(ls "$room/tmp")" ] && ! qemu_of_ours; }
qemu_of_ours() { [ -n "$(grep -lsa "^qemu-system.*$room" /proc/[0-9]*/cmdline)" ]; }

# --- a machine without QEMU ---

mkdir "$room/bin"
ln -s "$(command -v dirname)" "$room/bin/dirname"
PATH=$room/bin "$run" "$room/folder" true >"$room/out" 2>"$room/err"
code=$?
expect "is a skip" [ "$code" = 77 ]
expect "that says what to install" out_is 'no qemu-system-x86_64: apt-get install qemu-system-x86'

# --- a guest that stands still before it has started ---

cat >"$room/bin/qemu-system-x86_64" <<'END'
#!/bin/sh
for word; do case $word in *mount_tag=job*) job=${word#local,path=} ;; esac done
[ -e "$0.once" ] || { : >"$0.once" && exec sleep 600; }
echo 42 >"${job%%,mount_tag*}/status"
END
chmod 755 "$room/bin/qemu-system-x86_64"
PATH=$room/bin:$PATH VM_BOOT_SECONDS=1 vm "$room/folder" true
expect "is started once more" [ "$code" = 42 ]
expect "and that is told" err_says 'has not started after 1 s, so it is started again'
expect "nothing is left of it" nothing_left

# --- a run that goes well ---

cat >"$room/folder/sum" <<END
GYRE_TRANSPORT=verbs timeout 150 '$2/gyre' run -n 2 \\
    sh -c 'GYRE_RDMA_DEVICE=rxe\$RANK exec "\$@"' sh \\
    '$2/bench/all_reduce' --no-ceiling -c 1 -n 2 -b 8 -e 128K -f 128
END
vm -n 3 -t 240 "$room/folder" 'for d in /sys/class/infiniband/*; do cat $d/ports/1/state; done
    pwd >place; HOME=/tmp sh ./sum >sum.out 2>&1
    echo last >&2; exit 42'
expect "the command's exit code" [ "$code" = 42 ]
expect "three active devices, and both streams in order" \
    out_is "$(printf '4: ACTIVE\n4: ACTIVE\n4: ACTIVE\nlast')"
: >"$room/err"
cp "$room/folder/sum.out" "$room/out"
if grep 'built without RDMA' "$room/out"; then
    echo "left out: a sum over verbs"
else
    expect "a sum over verbs, nothing wrong in it" grep -q 'Out of bounds values : 0 OK' "$room/out"
    expect "over verbs indeed" grep -q 'transport verbs' "$room/out"
fi
expect "what is written in the folder stays" [ "$(cat "$room/folder/place")" = "$room/folder" ]
expect "nothing is left of it" nothing_left

# The same without any right, where this test has some to give up; what is kept of packages is in a
# home of its own then.
if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$run"; then
    image=$("$1/tests/vm/image")
    mkdir -p "$room/plain/cache/gyre-vm" "$room/plain/folder"
    cp -r "$image" "$room/plain/cache/gyre-vm"
    chmod 755 "$room" && chown -R 65534:65534 "$room/plain" "$room/tmp"
    code=0
    XDG_CACHE_HOME=$room/plain/cache \
        setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs \
        "$run" -n 1 "$room/plain/folder" \
        'cat /sys/class/infiniband/rxe0/ports/1/state; echo it >file; exit 7' \
        >"$room/out" 2>"$room/err" || code=$?
    expect "a user who may nothing: the command's exit code" [ "$code" = 7 ]
    expect "a user who may nothing: a device" out_is '4: ACTIVE'
    expect "whose files are his" [ "$(stat -c %u "$room/plain/folder/file")" = 65534 ]
    expect "nothing is left of it" nothing_left
    chown 0:0 "$room/tmp"
else
    echo "left out: the runner without root, because this is no root, or nobody else may read $run"
fi

vm -n 0 "$room/folder" 'printf "no newline"; kill -9 $$'
expect "a signal is 128 and its number" [ "$code" = 137 ]
expect "output without a newline" out_is "no newline"

# --- runs that go wrong ---

vm -t 1 "$room/folder" true
expect "the time limit is 124" [ "$code" = 124 ]
expect "and is named" err_says 'time limit of 1 s'
expect "nothing is left of it" nothing_left

vm -n 0 "$room/folder" 'echo c >/proc/sysrq-trigger; sleep 60'
expect "a guest that dies is 125" [ "$code" = 125 ]
expect "with its last words" err_says 'sysrq triggered crash'
expect "nothing is left of it" nothing_left

# --- a runner that is ended ---

until_qemu() { # runs, or ends
    tries=0
    while [ $tries -lt 600 ]; do
        if qemu_of_ours; then now=runs; else now=ends; fi
        [ $now != "$1" ] || return 0
        tries=$((tries + 1))
        sleep 0.1
    done
    return 1
}

for signal in TERM KILL; do
    "$run" "$room/folder" 'sleep 600' >"$room/out" 2>"$room/err" &
    code=running
    expect "QEMU starts" until_qemu runs
    kill -$signal $!
    expect "after $signal to the runner no QEMU is left" until_qemu ends
    wait $!
    code=$?
    expect "its exit code tells of a signal" [ "$code" -gt 128 ]
    [ $signal = KILL ] || expect "nothing is left of it" nothing_left
done

[ "$failures" = 0 ] && echo "all as expected"

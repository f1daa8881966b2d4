#!/bin/sh
# The table "Which wins" of docs/algorithms.md, row by row, against what `gyre show choices` prints
# with the built-in prices: who changes a price, the model or an algorithm is told which rows are no
# longer so.
#
#     | nodes: 8x1 | direct up to 32 MiB, knomial at 128 MiB, halving_doubling |
set -u
source=$1
gyre=$2/gyre
table=$(mktemp)
trap 'rm -f "$table"' EXIT
offences=0
rows=0
unset $(env | sed -n 's/^\(GYRE_[A-Z_]*\)=.*/\1/p') GYRE_NONE

# One line of the tool's table becomes "algorithm size"; runs of one algorithm become the row's
# words.
words() { # flags
    "$gyre" show choices "$@" -b 8 -e 2G | awk '
        function size(text) {
            if (text !~ /[KMG]$/) return text " B"
            return substr(text, 1, length(text) - 1) " " substr(text, length(text)) "iB"
        }
        /^#/ || $1 == "size" { next }
        $2 != algorithm {
            if (algorithm != "")
                out = out algorithm (first == last ? " at " : " up to ") size(last) ", "
            algorithm = $2
            first = $1
        }
        { last = $1 }
        END { print out algorithm }'
}

compare() { # what the page says, flags
    said=$1
    shift
    found=$(words "$@")
    rows=$((rows + 1))
    [ "$said" = "$found" ] && return
    echo "docs/algorithms.md says of $*: $said; gyre show choices: $found"
    offences=$((offences + 1))
}

# A row whose first cell is empty goes on with the row before.
sed -n '/^| one node, shared memory/,/^$/p' "$source/docs/algorithms.md" | sed '1d;/^$/d' |
    awk -F'|' '
        { gsub(/^ +| +$/, "", $3) }
        $2 ~ /^ +$/ { said = said " " $3; next }
        NR > 1 { print "|" layouts "|" said "|" }
        { layouts = $2; said = $3 }
        END { print "|" layouts "|" said "|" }' >"$table"
kind=
while IFS='|' read -r _ layouts said _; do
    case $layouts in
    *loopback:*) kind=loopback ;;
    *nodes:*) kind=nodes ;;
    esac
    said=$(echo "$said" | sed 's/^ *//; s/ *$//')
    for layout in $(echo "$layouts" | sed 's/loopback://; s/nodes://; s/,/ /g'); do
        if [ "$kind" = loopback ]; then
            compare "$said" -n "$layout" -t tcp
        else
            compare "$said" --nodes "$layout"
        fi
    done
done <"$table"
[ "$rows" -ge 30 ] || {
    echo "only $rows layouts were found in the table"
    exit 1
}
echo "$rows layouts"
[ "$offences" = 0 ]

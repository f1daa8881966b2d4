#!/bin/sh
# Checks that sites.awk finds each kind of mutation in a small source and leaves comments, tables
# and messages alone, and that draw.awk draws by its seed, each line once.
set -u
cd "$1/tests/mutants" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/small.c" <<'C'
/* 1 + 2 == 3 */
static const int table[] = {1, 2};

static int look(int a, char *text)
{
    char room[8];
    int b = a + 1;
    /* a && b */
    if (a < b && text)
        return 0;
    while (next(a))
        break;
    b = 'x';
    gyre_log("a == %d", a + 1);
    forget(a);
    return b - a;
}
C
cat >"$work/expected" <<'LIST'
7 arithmetic int b = a - 1;
7 constant int b = a + 2;
9 comparison if (a <= b && text)
9 logic if (a < b || text)
9 condition if (!(a < b && text))
10 constant return 1;
11 condition while (!(next(a)))
12 jump continue;
13 statement ;
15 statement ;
16 arithmetic return b + a;
16 return return 0;
LIST
awk -f sites.awk "$work/small.c" | cut -f 2- | tr '\t' ' ' | sed 's/  */ /g' >"$work/found"
diff "$work/expected" "$work/found" || {
    echo "sites.awk: < was expected, > was found"
    exit 1
}

draw() { # count, seed
    awk -v count="$1" -v seed="$2" -f draw.awk "$work/expected"
}
[ "$(draw 99 1 | sort)" = "$(sort "$work/expected")" ] || {
    echo "draw.awk: 99 of 12 lines are not each line once"
    exit 1
}
if [ "$(draw 5 1)" != "$(draw 5 1)" ] || [ "$(draw 5 1)" = "$(draw 5 2)" ]; then
    echo "draw.awk: 5 lines do not follow from their seed alone"
    exit 1
fi

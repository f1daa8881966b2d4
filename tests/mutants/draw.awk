# Draws `count` lines of a list, by a generator of its own, so that a seed means the same mutations
# under every awk.
{ line[NR] = $0 }
END {
    state = (seed * 7919 + 12345) % 2147483646 + 1
    if (count > NR)
        count = NR
    while (drawn < count) {
        state = state * 16807 % 2147483647
        at = state % NR + 1
        if (!(at in taken)) {
            taken[at] = 1
            drawn++
            print line[at]
        }
    }
}

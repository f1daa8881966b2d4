/* Writes an all-reduce over a star as JSON: rank 0 sums, and sends everybody the sum.
 *
 *     cc star.c -o star && ./star 4 > star.json && gyre check star.json */
#include <stdio.h>
#include <stdlib.h>

#define STEP "{\"kind\":\"%s\",\"buffer\":\"%s\",\"offset\":%d,\"length\":16,\"peer\":%d}%s"
#define SUM                                                                                        \
    "{\"kind\":\"REDUCE\",\"buffer\":\"OUTPUT\",\"offset\":0,\"length\":16,\"final\":true,"        \
    "\"sources\":["

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 4;
    printf(
        "{\"operation\":\"all_reduce\",\"algorithm\":\"star\",\"n\":%d,\"count\":4,\"ranks\":[\n",
        n);
    printf(" {\"rank\":0,\"rounds\":[[");
    for (int r = 1; r < n; r++) /* rank 0 receives what the others have … */
        printf(STEP, "RECV", "SCRATCH", 16 * (r - 1), r, r < n - 1 ? "," : "],\n  [");
    printf(SUM "{\"buffer\":\"INPUT\",\"offset\":0}"); /* … adds it up … */
    for (int r = 1; r < n; r++)
        printf(",{\"buffer\":\"SCRATCH\",\"offset\":%d}%s", 16 * (r - 1),
               r < n - 1 ? "" : "]}],\n  [");
    for (int r = 1; r < n; r++) /* … and sends the sum to all */
        printf(STEP, "SEND", "OUTPUT", 0, r, r < n - 1 ? "," : "]]}");
    for (int r = 1; r < n; r++) {
        printf(",\n {\"rank\":%d,\"rounds\":[[" STEP, r, "SEND", "INPUT", 0, 0, "],[],[");
        printf(STEP, "RECV", "OUTPUT", 0, 0, "]]}");
    }
    puts("]}");
}

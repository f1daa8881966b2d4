/* The program of every bench of a collective. */
#include "harness/run.h"

int main(int argc, char **argv)
{
    return bench_main(argc, argv, &bench_verb);
}

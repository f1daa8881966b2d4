/* A listed schedule before the checker, and on a page. Tested by tests/program/cli/check.c. */
#include "cli/check/listed.h"

#include "cli/show/page/page.h"
#include "collectives/prove/check.h"
#include "data/files/file.h"

#include <errno.h>
#include <stdlib.h>

int gyre_listed_prove(const struct gyre_listed *listed, struct gyre_trouble *trouble)
{
    struct gyre_slice *of_rank = calloc(listed->slice.n, sizeof *of_rank);
    if (of_rank == NULL)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for %u ranks", listed->slice.n);
    for (uint32_t rank = 0; rank < listed->slice.n; rank++) {
        of_rank[rank] = listed->slice;
        of_rank[rank].rank = rank;
    }
    int status = gyre_check_ranks(gyre_listed_algorithm(listed), of_rank, trouble);
    free(of_rank);
    return status == GYRE_INVALID ? GYRE_CORRUPT : status;
}

/* The page plays a defect, which proving tells: the page's own story of it is dropped. */
int gyre_listed_page(const struct gyre_listed *listed, const char *path,
                     struct gyre_trouble *trouble)
{
    const struct gyre_page_schedule schedule = {gyre_listed_algorithm(listed), listed->slice};
    struct gyre_trouble defect = {0};
    char *text = NULL;
    size_t length = 0;
    if (listed->slice.n > GYRE_PAGE_RANKS_MAX)
        return gyre_trouble_set(trouble, GYRE_INVALID, "--html draws at most %d ranks, not %u",
                                GYRE_PAGE_RANKS_MAX, listed->slice.n);
    FILE *out = open_memstream(&text, &length);
    int status = out != NULL ? gyre_page_write(out, &schedule, 1, &defect) : -ENOMEM;
    if (out != NULL && fclose(out) != 0)
        status = -ENOMEM;
    const struct iovec part = {text, length};
    if (status == -ENOMEM)
        gyre_trouble_set(trouble, status, "no memory for a page of %u ranks", listed->slice.n);
    else
        status = gyre_file_replace(path, &part, 1, trouble);
    free(text);
    return status;
}

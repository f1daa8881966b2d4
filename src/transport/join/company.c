/* Ranks that have found each other already. Tested by tests/program/failures/shrink.c. */
#include "transport/join/company.h"

#include <stdlib.h>

void gyre_company_close(struct gyre_company *company)
{
    uint32_t talks = company->rank == 0 ? company->n : 1;
    for (uint32_t i = 0; company->talk && i < talks; i++)
        gyre_talk_close(&company->talk[i]);
    free(company->talk);
    company->talk = NULL;
}

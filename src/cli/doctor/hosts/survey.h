/* A survey of several hosts: what their agents say, and the ways between them. */
#ifndef GYRE_CLI_DOCTOR_HOSTS_SURVEY_H
#define GYRE_CLI_DOCTOR_HOSTS_SURVEY_H

#include "cli/doctor/hosts/line.h"
#include "cli/doctor/hosts/probe.h"
#include "cli/doctor/report.h"

#define GYRE_SURVEY_MOST 64 /* hosts */

struct gyre_survey_host {
    char name[128]; /* as people know it */
    struct gyre_doctor_line line;
    char lost[512]; /* why it takes no part; "": it does */
    char advice[256];
    bool ended;       /* its line has */
    char failed[512]; /* what its agent could not do, in its words; "": all that was asked for */
    /* what its agent says, "" where it does not */
    char version[32], host[64], system[128], machine[128], key_from[16], key[20], address[128];
    char settings[GYRE_DOCTOR_LINE_MAX], verbs[128], port[8];
    char slow_start[32]; /* after a pause: the congestion control that does so */
    char root[128];      /* the address that it knows the first host's name by */
};

struct gyre_survey_way { /* from one host to another */
    bool tried;
    char address[160]; /* with the port */
    char failed[512];  /* the agent could not try; "": it could */
    struct gyre_probe probe;
};

struct gyre_survey {
    int n;
    struct gyre_survey_host *host; /* n */
    struct gyre_survey_way *way;   /* n × n, by dialler, then by listener */
    bool by_name; /* hosts were given by name: the first is where `gyre run --hosts` has rank 0 */
};

/* 0 or -ENOMEM. The names are copied. */
int gyre_survey_init(struct gyre_survey *survey, int n);
void gyre_survey_deinit(struct gyre_survey *survey); /* ends the agents */

/* Leaves a host out, with a reason and advice ("": none). */
void gyre_survey_lose(struct gyre_survey_host *host, const char *advice, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Asks all agents who they are, and leaves out those that do not answer. */
void gyre_survey_greet(struct gyre_survey *survey);

/* The rest: what hosts find out about themselves goes into the report, then ways are tried. */
void gyre_survey_check_hosts(struct gyre_survey *survey, struct gyre_doctor_report *report);
void gyre_survey_try_ways(struct gyre_survey *survey);

/* What follows from all of it (judge.c). */
void gyre_survey_judge(const struct gyre_survey *survey, struct gyre_doctor_report *report);

#endif

/* An agent of a check-up: it runs on one host and does what the coordinator asks for, a line each.
 *
 *     hello                      who is here: facts
 *     check                      findings of this machine
 *     listen TOKEN               facts: the port
 *     resolve NAME               facts: the first address of a name, as this host knows it
 *     try ADDRESS PORT TOKEN     facts: what the way there is like (probe.h)
 *     bye
 *
 * An answer is lines "fact NAME VALUE", or those of findings, and at last "done", or "failed
 * WORDS". Between lines the agent serves whoever tries the way to it. */
#ifndef GYRE_CLI_DOCTOR_HOSTS_AGENT_H
#define GYRE_CLI_DOCTOR_HOSTS_AGENT_H

/* Serves until "bye", or until the coordinator has gone. Takes the descriptors, which may be the
 * same. Returns an exit code. */
int gyre_doctor_serve(int in, int out);

#endif

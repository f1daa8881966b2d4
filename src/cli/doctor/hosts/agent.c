/* What an agent answers. Its own findings travel as lines, too:
 *
 *     finding ports problem      check and state
 *     found …  advice …  detail …
 *
 * Tested by tests/unit/cli/doctor/hosts/agent_test.c and tests/program/cli/doctor_hosts.sh. */
#include "cli/doctor/hosts/agent.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/doctor/checks/all.h"
#include "cli/doctor/machine.h"
#include "cli/doctor/hosts/line.h"
#include "cli/doctor/hosts/probe.h"
#include "knobs/knobs.h"
#include "transport/job/boot.h"
#include "transport/job/job.h"
#include "transport/net/address.h"
#include "transport/net/ports.h"
#include "transport/net/socket.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_NS (60 * GYRE_SECOND) /* from a line's first byte to its last */

struct agent {
    struct gyre_doctor_line line;
    int listener; /* -1: none */
    char token[GYRE_PROBE_TOKEN + 1];
};

/* -- who is here ------------------------------------------------------------------------------- */

static void say_key(struct gyre_doctor_line *line)
{
    static const char *const origins[] = {[GYRE_KEY_UNWANTED] = "unwanted",
                                          [GYRE_KEY_LAUNCHED] = "launcher",
                                          [GYRE_KEY_VARIABLE] = "GYRE_KEY",
                                          [GYRE_KEY_FILE] = "file",
                                          [GYRE_KEY_TO_MAKE] = "none"};
    struct gyre_key_place place;
    char id[2 * sizeof place.key_id + 1];
    if (gyre_job_find_key(&place, NULL))
        return;
    gyre_hex_write(place.key_id, sizeof place.key_id, id);
    gyre_doctor_say(line, "fact key_from %s", origins[place.origin]);
    gyre_doctor_say(line, "fact key %s", id);
}

/* The address at which peers reach this host, where that is known without them. */
static bool find_host_address(struct sockaddr_storage *address)
{
    const char *wish = getenv("GYRE_INTERFACE");
    return !(wish && *wish ? gyre_address_choose(wish, AF_UNSPEC, address, NULL)
                           : gyre_address_outward(AF_UNSPEC, address));
}

static void say_address(struct gyre_doctor_line *line)
{
    struct sockaddr_storage address;
    char text[GYRE_ADDRESS_TEXT];
    if (!find_host_address(&address))
        return;
    gyre_address_format(&address, text);
    *strrchr(text, ':') = 0;
    gyre_doctor_say(line, "fact address %s", text);
}

/* Settings that must be the same on all ranks. */
static void say_settings(struct gyre_doctor_line *line)
{
    char text[GYRE_DOCTOR_LINE_MAX - 32] = "";
    size_t used = 0;
    for (const struct gyre_knob *knob = gyre_knobs; knob->name && used < sizeof text; knob++) {
        const char *value = knob->same ? getenv(knob->name) : NULL;
        if (value && *value)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=%s", used ? "  " : "",
                                     knob->name, value);
    }
    gyre_doctor_say(line, "fact settings %s", text);
}

static void say_machine(struct gyre_doctor_line *line)
{
    char boot[GYRE_BOOT_ID_TEXT] = "";
    struct stat space = {0};
    gyre_boot_id(boot);
    (void)stat("/proc/self/ns/net", &space);
    boot[strcspn(boot, "\n")] = 0;
    gyre_doctor_say(line, "fact machine %s/%llu/%u", boot, (unsigned long long)space.st_ino,
                    (unsigned)geteuid());
}

/* Whether the kernel begins slowly again on a connection that was silent for 0.2 s or more. BBR
 * does not. */
static void say_slow_start(struct gyre_doctor_line *line)
{
    const struct gyre_doctor_machine *machine = &gyre_doctor_this_machine;
    char control[32];
    gyre_doctor_read(machine, "/proc/sys/net/ipv4/tcp_congestion_control", control, sizeof control);
    if (gyre_doctor_read_number(machine, "/proc/sys/net/ipv4/tcp_slow_start_after_idle", 0) &&
        strcmp(control, "bbr"))
        gyre_doctor_say(line, "fact slow_start %s", *control ? control : "unknown");
}

static void say_identity(struct gyre_doctor_line *line)
{
    struct gyre_doctor_title title;
    struct gyre_trouble trouble = {0};
    char wire[128];
    gyre_doctor_title_fill(&title);
    gyre_doctor_say(line, "fact version %s", title.version);
    gyre_doctor_say(line, "fact host %s", title.host);
    gyre_doctor_say(line, "fact system %s", title.system);
    say_machine(line);
    say_key(line);
    say_address(line);
    say_settings(line);
    if (!gyre_doctor_this_machine.verbs(wire, sizeof wire, &trouble))
        gyre_doctor_say(line, "fact verbs %s", wire);
    say_slow_start(line);
}

static void say_findings(struct gyre_doctor_line *line)
{
    struct gyre_doctor_report report = {0};
    gyre_check_this_machine(false, &report);
    for (int i = 0; i < report.findings; i++) {
        const struct gyre_doctor_finding *finding = &report.finding[i];
        gyre_doctor_say(line, "finding %s %s", finding->check,
                        gyre_doctor_state_word(finding->state));
        gyre_doctor_say(line, "found %s", finding->found ? finding->found : "");
        if (finding->advice)
            gyre_doctor_say(line, "advice %s", finding->advice);
        for (int k = 0; k < finding->details; k++)
            gyre_doctor_say(line, "detail %s", finding->detail[k] ? finding->detail[k] : "");
    }
    gyre_doctor_report_deinit(&report);
}

/* -- ways -------------------------------------------------------------------------------------- */

static bool agent_fails(struct agent *agent, const struct gyre_trouble *trouble)
{
    gyre_doctor_say(&agent->line, "failed %s", trouble->text);
    return false;
}

static bool begin_to_listen(struct agent *agent, const char *token)
{
    struct sockaddr_storage any = {.ss_family = AF_INET6};
    struct gyre_trouble trouble = {0};
    uint16_t low, high;
    if (gyre_ports_read(&low, &high, &trouble))
        return agent_fails(agent, &trouble);
    agent->listener = gyre_socket_listen(&any, low, high, 8);
    if (agent->listener < 0) {
        any = (struct sockaddr_storage){.ss_family = AF_INET};
        agent->listener = gyre_socket_listen(&any, low, high, 8);
    }
    if (agent->listener < 0) {
        gyre_trouble_set(&trouble, agent->listener, "cannot listen at a port of %u-%u: %s", low,
                         high, strerror(-agent->listener));
        return agent_fails(agent, &trouble);
    }
    snprintf(agent->token, sizeof agent->token, "%-*.*s", GYRE_PROBE_TOKEN, GYRE_PROBE_TOKEN,
             token);
    return gyre_doctor_say(&agent->line, "fact port %u", gyre_address_port(&any));
}

static bool resolve_name(struct agent *agent, const char *name)
{
    struct sockaddr_storage address;
    struct gyre_trouble trouble = {0};
    char text[GYRE_ADDRESS_TEXT];
    if (gyre_address_resolve(name, 0, &address, 1, &trouble) < 1)
        return agent_fails(agent, &trouble);
    gyre_address_format(&address, text);
    *strrchr(text, ':') = 0;
    return gyre_doctor_say(&agent->line, "fact address %s", text);
}

static bool try_way(struct agent *agent, const char *host, unsigned port, const char *token)
{
    struct sockaddr_storage to, own;
    struct gyre_trouble trouble = {0};
    struct gyre_probe probe;
    const char *wish = getenv("GYRE_INTERFACE");
    char padded[GYRE_PROBE_TOKEN + 1];
    if (gyre_address_resolve(host, (uint16_t)port, &to, 1, &trouble) < 1)
        return agent_fails(agent, &trouble);
    bool from = wish && *wish && find_host_address(&own);
    snprintf(padded, sizeof padded, "%-*.*s", GYRE_PROBE_TOKEN, GYRE_PROBE_TOKEN, token);
    gyre_probe_try(&to, from ? &own : NULL, padded, &probe);
    gyre_doctor_say(&agent->line, "fact error %d", probe.error);
    gyre_doctor_say(&agent->line, "fact lost %d", probe.lost);
    gyre_doctor_say(&agent->line, "fact stuck %d", probe.stuck);
    gyre_doctor_say(&agent->line, "fact segment %d", probe.segment_bytes);
    gyre_doctor_say(&agent->line, "fact round_trip_us %.3f", probe.round_trip_us);
    gyre_doctor_say(&agent->line, "fact ahead_ms %.6f", probe.ahead_ms);
    gyre_doctor_say(&agent->line, "fact doubt_ms %.6f", probe.doubt_ms);
    return gyre_doctor_say(&agent->line, "fact gbit_s %.6f", probe.gbit_s);
}

/* -- the loop ---------------------------------------------------------------------------------- */

static void carry_out(struct agent *agent, const char *text)
{
    char word[256], token[64];
    unsigned port;
    bool done = true;
    if (!strcmp(text, "hello"))
        say_identity(&agent->line);
    else if (!strcmp(text, "check"))
        say_findings(&agent->line);
    else if (sscanf(text, "listen %63s", token) == 1)
        done = begin_to_listen(agent, token);
    else if (sscanf(text, "resolve %255s", word) == 1)
        done = resolve_name(agent, word);
    else if (sscanf(text, "try %255s %u %63s", word, &port, token) == 3)
        done = try_way(agent, word, port, token);
    else
        gyre_doctor_say(&agent->line, "failed unknown words: %.200s", text), done = false;
    if (done)
        gyre_doctor_say(&agent->line, "done");
}

/* Serves those who try the way to this host, until the coordinator says something. */
static void serve_ways(struct agent *agent)
{
    struct sockaddr_storage from;
    struct pollfd wait[2] = {{.fd = agent->line.in, .events = POLLIN},
                             {.fd = agent->listener, .events = POLLIN}};
    while (!gyre_doctor_has_line(&agent->line) && poll(wait, 2, -1) >= 0 && !wait[0].revents) {
        int fd = wait[1].revents ? gyre_socket_accept(agent->listener, &from) : -1;
        if (fd >= 0)
            gyre_probe_serve(fd, agent->token, agent->line.in);
    }
}

int gyre_doctor_serve(int in, int out)
{
    static struct agent agent;
    char text[GYRE_DOCTOR_LINE_MAX];
    agent.listener = -1;
    gyre_doctor_line_open(&agent.line, in, out);
    for (;;) {
        serve_ways(&agent);
        if (gyre_doctor_hear(&agent.line, text, gyre_now_ns() + LINE_NS) || !strcmp(text, "bye"))
            break;
        carry_out(&agent, text);
    }
    gyre_doctor_line_close(&agent.line);
    if (agent.listener >= 0)
        close(agent.listener);
    return 0;
}

/* The transport's settings: gyre_init()'s options first, then the environment, then defaults.
 *
 * Tested by tests/unit/collectives/comm/world_of_one_test.c. */
#include "transport/domain/inside.h"

#include "base/env.h"
#include "transport/link/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_transport(const struct gyre_options *user, struct gyre_domain_settings *settings,
                          struct gyre_trouble *trouble)
{
    const char *words[GYRE_LINK_WORDS_MOST];
    int index = 0, count = gyre_link_words(words);
    int status =
        user && user->transport
            ? gyre_parse_word("options.transport", user->transport, words, count, &index, trouble)
            : gyre_env_word("GYRE_TRANSPORT", words, count, &index, trouble);
    settings->transport = words[index];
    return status;
}

static int read_poller(struct gyre_domain_settings *settings, struct gyre_trouble *trouble)
{
    static const char *const words[] = {"auto", "io_uring", "epoll"};
    int index = 0;
    int status = gyre_env_word("GYRE_TCP_POLLER", words, 3, &index, trouble);
    settings->poller = index ? words[index] : NULL;
    return status;
}

/* The first of two words is the default. */
static int read_either(const char *name, const char *const words[2], bool *second,
                       struct gyre_trouble *trouble)
{
    int index = 0;
    int status = gyre_env_word(name, words, 2, &index, trouble);
    *second = index == 1;
    return status;
}

static int read_sums(struct gyre_domain_settings *settings, struct gyre_trouble *trouble)
{
    static const char *const words[] = {"payload", "header"};
    return read_either("GYRE_TCP_SUMS", words, &settings->bare_payload, trouble);
}

static int read_failover(struct gyre_domain_settings *settings, struct gyre_trouble *trouble)
{
    static const char *const words[] = {"none", "tcp"};
    return read_either("GYRE_RDMA_FAILOVER", words, &settings->failover, trouble);
}

static int read_ports(struct gyre_domain_settings *settings, struct gyre_trouble *trouble)
{
    const char *text = getenv("GYRE_PORT_RANGE");
    int low, high, end = 0;
    if (!text || !*text)
        return 0;
    if (sscanf(text, "%d-%d%n", &low, &high, &end) < 2 || text[end] || low < 1 || high > 65535 ||
        low > high)
        return gyre_trouble_set(
            trouble, GYRE_INVALID,
            "GYRE_PORT_RANGE is \"%s\": expected two ports, low-high, such as 29600-29700", text);
    settings->port_low = low;
    settings->port_high = high;
    return 0;
}

static int read_time(const char *name, int given, int64_t fallback, int64_t *out,
                     struct gyre_trouble *trouble)
{
    *out = fallback;
    if (given > 0) {
        *out = given;
        return 0;
    }
    if (given < 0)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "the option for %s is %d ms: expected 0 or more", name, given);
    return gyre_env_duration_ms(name, out, trouble);
}

int gyre_domain_settings_read(const struct gyre_options *user,
                              struct gyre_domain_settings *settings, struct gyre_trouble *trouble)
{
    const char *interface = getenv("GYRE_INTERFACE");
    int status;
    *settings = (struct gyre_domain_settings){.connections = 1};
    if (interface && strlen(interface) >= sizeof(settings->interface))
        return gyre_trouble_set(trouble, GYRE_INVALID, "GYRE_INTERFACE is longer than %zu bytes",
                                sizeof(settings->interface) - 1);
    if (interface)
        strcpy(settings->interface, interface);
    settings->devices = user && user->devices ? user->devices : getenv("GYRE_DEVICES");
    if (settings->devices && !settings->devices[0])
        settings->devices = NULL;
    if ((status = read_transport(user, settings, trouble)) ||
        (status = read_poller(settings, trouble)) || (status = read_failover(settings, trouble)) ||
        (status = read_sums(settings, trouble)) || (status = read_ports(settings, trouble)))
        return status;
    if ((status = read_time("GYRE_JOIN_TIMEOUT", user ? user->join_timeout_ms : 0, 300000,
                            &settings->join_timeout_ms, trouble)) ||
        (status = gyre_env_refuse_zero("GYRE_JOIN_TIMEOUT", (uint64_t)settings->join_timeout_ms,
                                       trouble)) ||
        (status = read_time("GYRE_TIMEOUT", user ? user->timeout_ms : 0, 1800000,
                            &settings->timeout_ms, trouble)) ||
        (status = read_time("GYRE_DEAD_TIME", user ? user->dead_time_ms : 0, 10000,
                            &settings->dead_time_ms, trouble)))
        return status;
    return gyre_env_int("GYRE_TCP_CONNECTIONS", 1, GYRE_TCP_CONNECTIONS_MAX, &settings->connections,
                        trouble);
}

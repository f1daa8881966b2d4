/* The transport's settings: gyre_init()'s options first, then the environment, then defaults.
 *
 * Tested by tests/unit/transport/domain/settings_test.c. */
#include "transport/domain/inside.h"

#include "base/env.h"
#include "transport/link/words.h"
#include "transport/net/ports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINKS_AT_ONCE_MOST 1024 /* a rank maps at most so many regions of its peers */

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

/* Reads one of two words; the first is the default. */
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

static const char *const security_words[] = {"auto", "none", "auth", "encrypt"};

static int read_security(struct gyre_domain_settings *settings, struct gyre_trouble *trouble)
{
    int index = 0;
    int status = gyre_env_word("GYRE_TCP_SECURITY", security_words, 4, &index, trouble);
    settings->security = (enum gyre_domain_security)index;
    return status;
}

const char *gyre_domain_security_word(enum gyre_domain_security security)
{
    return security_words[security];
}

enum gyre_seal_mode gyre_domain_seals(const struct gyre_domain *domain, bool one_machine)
{
    switch (domain->settings.security) {
    case GYRE_SECURITY_AUTH:
        return GYRE_SEAL_AUTH;
    case GYRE_SECURITY_ENCRYPT:
        return GYRE_SEAL_ENCRYPT;
    case GYRE_SECURITY_AUTO:
        return domain->job.authenticated && !one_machine ? GYRE_SEAL_AUTH : GYRE_SEAL_NONE;
    default:
        return GYRE_SEAL_NONE;
    }
}

int gyre_domain_check_security(const struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    const enum gyre_domain_security security = domain->settings.security;
    if (domain->job.authenticated || security <= GYRE_SECURITY_NONE)
        return 0;
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "GYRE_TCP_SECURITY=%s needs the job's key, and GYRE_AUTH=none gives it "
                            "up: unset GYRE_AUTH, or set GYRE_TCP_SECURITY=none",
                            gyre_domain_security_word(security));
}

static const char *const renewal_words[] = {"auto", "never", "always"};

static int read_renewal(struct gyre_domain_settings *settings, struct gyre_trouble *trouble)
{
    int index = 0;
    int status = gyre_env_word("GYRE_TCP_RENEW", renewal_words, 3, &index, trouble);
    settings->renewal = (enum gyre_domain_renewal)index;
    return status;
}

const char *gyre_domain_renewal_word(enum gyre_domain_renewal renewal)
{
    return renewal_words[renewal];
}

static int read_failover(struct gyre_domain_settings *settings, struct gyre_trouble *trouble)
{
    static const char *const words[] = {"none", "tcp"};
    return read_either("GYRE_RDMA_FAILOVER", words, &settings->failover, trouble);
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

static int read_trace_size(struct gyre_domain_settings *settings, struct gyre_trouble *trouble)
{
    settings->trace_bytes = GYRE_TRACE_BYTES;
    int status = gyre_env_size("GYRE_TRACE_SIZE", &settings->trace_bytes, trouble);
    if (!status && (settings->trace_bytes < GYRE_TRACE_BYTES_LEAST ||
                    settings->trace_bytes > GYRE_TRACE_BYTES_MOST))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "GYRE_TRACE_SIZE is %llu bytes: expected 64K to 4G",
                                (unsigned long long)settings->trace_bytes);
    return status;
}

int gyre_domain_settings_read(const struct gyre_options *user,
                              struct gyre_domain_settings *settings, struct gyre_trouble *trouble)
{
    const char *interface = getenv("GYRE_INTERFACE");
    int status;
    *settings =
        (struct gyre_domain_settings){.connections = 1, .links_at_once = GYRE_LINKS_AT_ONCE};
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
        (status = read_sums(settings, trouble)) || (status = read_security(settings, trouble)) ||
        (status = read_renewal(settings, trouble)) ||
        (status = read_trace_size(settings, trouble)) ||
        (status = gyre_ports_read(&settings->port_low, &settings->port_high, trouble)))
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
    status = gyre_env_int("GYRE_LINKS_AT_ONCE", 1, LINKS_AT_ONCE_MOST, &settings->links_at_once,
                          trouble);
    return status ? status
                  : gyre_env_int("GYRE_TCP_CONNECTIONS", 1, GYRE_TCP_CONNECTIONS_MAX,
                                 &settings->connections, trouble);
}

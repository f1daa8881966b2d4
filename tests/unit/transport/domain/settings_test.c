/* The transport's settings: each variable reaches its field, defaults hold where none is set, the
 * caller's options come first, and what makes no sense is refused by its name. */
#include "rig/test.h"
#include "transport/domain/inside.h"

#include <stdlib.h>
#include <string.h>

static const char *const variables[] = {
    "GYRE_TRANSPORT",  "GYRE_INTERFACE",    "GYRE_DEVICES",         "GYRE_TCP_POLLER",
    "GYRE_TCP_SUMS",   "GYRE_TCP_SECURITY", "GYRE_TCP_CONNECTIONS", "GYRE_RDMA_FAILOVER",
    "GYRE_PORT_RANGE", "GYRE_JOIN_TIMEOUT", "GYRE_TIMEOUT",         "GYRE_DEAD_TIME",
    "GYRE_TCP_RENEW",  "GYRE_TRACE_SIZE",
};

static struct gyre_domain_settings settings;
static struct gyre_trouble trouble;

static int forget(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    trouble = (struct gyre_trouble){0};
    return 0;
}

static void read_with(const char *name, const char *value)
{
    setenv(name, value, 1);
    if (gyre_domain_settings_read(NULL, &settings, &trouble))
        fail_msg("%s=%s: %s", name, value, trouble.text);
    unsetenv(name);
}

static void defaults_hold(void **state)
{
    (void)state;
    assert_int_equal(gyre_domain_settings_read(NULL, &settings, &trouble), 0);
    assert_string_equal(settings.transport, "auto");
    assert_string_equal(settings.interface, "");
    assert_null(settings.devices);
    assert_null(settings.poller);
    assert_false(settings.bare_payload);
    assert_false(settings.failover);
    assert_int_equal(settings.security, GYRE_SECURITY_AUTO);
    assert_int_equal(settings.renewal, GYRE_RENEW_AUTO);
    assert_int_equal(settings.connections, 1);
    assert_int_equal(settings.port_low, 0);
    assert_int_equal(settings.port_high, 0);
    assert_int_equal(settings.join_timeout_ms, 300000);
    assert_int_equal(settings.timeout_ms, 1800000);
    assert_int_equal(settings.dead_time_ms, 10000);
    assert_int_equal(settings.trace_bytes, 16 << 20);
}

static void every_variable_is_heard(void **state)
{
    (void)state;
    read_with("GYRE_TRANSPORT", "tcp");
    assert_string_equal(settings.transport, "tcp");
    read_with("GYRE_INTERFACE", "eth7");
    assert_string_equal(settings.interface, "eth7");
    read_with("GYRE_DEVICES", "0,1");
    assert_non_null(settings.devices);
    read_with("GYRE_TCP_POLLER", "epoll");
    assert_string_equal(settings.poller, "epoll");
    read_with("GYRE_TCP_SUMS", "header");
    assert_true(settings.bare_payload);
    read_with("GYRE_TCP_SUMS", "payload");
    assert_false(settings.bare_payload);
    read_with("GYRE_TCP_SECURITY", "encrypt");
    assert_int_equal(settings.security, GYRE_SECURITY_ENCRYPT);
    read_with("GYRE_TCP_RENEW", "always");
    assert_int_equal(settings.renewal, GYRE_RENEW_ALWAYS);
    read_with("GYRE_TCP_CONNECTIONS", "3");
    assert_int_equal(settings.connections, 3);
    read_with("GYRE_RDMA_FAILOVER", "tcp");
    assert_true(settings.failover);
    read_with("GYRE_PORT_RANGE", "29600-29700");
    assert_int_equal(settings.port_low, 29600);
    assert_int_equal(settings.port_high, 29700);
    read_with("GYRE_JOIN_TIMEOUT", "7s");
    assert_int_equal(settings.join_timeout_ms, 7000);
    read_with("GYRE_TIMEOUT", "8s");
    assert_int_equal(settings.timeout_ms, 8000);
    read_with("GYRE_DEAD_TIME", "900ms");
    assert_int_equal(settings.dead_time_ms, 900);
    read_with("GYRE_TRACE_SIZE", "64K");
    assert_int_equal(settings.trace_bytes, 64 << 10);
}

static void options_come_before_the_environment(void **state)
{
    struct gyre_options options = GYRE_OPTIONS_INIT;
    (void)state;
    options.transport = "shm";
    options.devices = "2";
    options.join_timeout_ms = 11;
    options.timeout_ms = 12;
    options.dead_time_ms = 13;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        setenv(variables[i], strstr(variables[i], "TIME") ? "1h" : "", 1);
    unsetenv("GYRE_TCP_CONNECTIONS");
    setenv("GYRE_TRANSPORT", "tcp", 1);
    if (gyre_domain_settings_read(&options, &settings, &trouble))
        fail_msg("%s", trouble.text);
    assert_string_equal(settings.transport, "shm");
    assert_string_equal(settings.devices, "2");
    assert_int_equal(settings.join_timeout_ms, 11);
    assert_int_equal(settings.timeout_ms, 12);
    assert_int_equal(settings.dead_time_ms, 13);
}

static void nonsense_is_refused_by_name(void **state)
{
    static const char *const wrong[][2] = {
        {"GYRE_TRANSPORT", "tpc"},       {"GYRE_TCP_POLLER", "poll"},
        {"GYRE_TCP_SUMS", "body"},       {"GYRE_TCP_SECURITY", "sealed"},
        {"GYRE_TCP_CONNECTIONS", "0"},   {"GYRE_TCP_CONNECTIONS", "1000000"},
        {"GYRE_TCP_CONNECTIONS", "two"}, {"GYRE_RDMA_FAILOVER", "udp"},
        {"GYRE_PORT_RANGE", "9-8"},      {"GYRE_JOIN_TIMEOUT", "0s"},
        {"GYRE_TIMEOUT", "soon"},        {"GYRE_DEAD_TIME", "-1s"},
        {"GYRE_TCP_RENEW", "yes"},       {"GYRE_TRACE_SIZE", "63K"},
        {"GYRE_TRACE_SIZE", "5G"},       {"GYRE_TRACE_SIZE", "much"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        trouble = (struct gyre_trouble){0};
        setenv(wrong[i][0], wrong[i][1], 1);
        assert_int_equal(gyre_domain_settings_read(NULL, &settings, &trouble), GYRE_INVALID);
        unsetenv(wrong[i][0]);
        if (!strstr(trouble.text, wrong[i][0]))
            fail_msg("\"%s\" does not name %s", trouble.text, wrong[i][0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults_hold, forget),
        cmocka_unit_test_setup(every_variable_is_heard, forget),
        cmocka_unit_test_setup(options_come_before_the_environment, forget),
        cmocka_unit_test_setup(nonsense_is_refused_by_name, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

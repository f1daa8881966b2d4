/* Addresses: printed, packed, compared, chosen. What depends on the machine uses loopback alone,
 * which every machine has. */
#include "transport/net/socket.h"
#include "rig/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct sockaddr_storage address_of(const char *text, uint16_t port)
{
    struct sockaddr_storage address;
    assert_int_equal(gyre_address_resolve(text, port, &address, 1, NULL), 1);
    return address;
}

static void assert_prints(const char *text, uint16_t port, const char *expected)
{
    char out[GYRE_ADDRESS_TEXT];
    struct sockaddr_storage address = address_of(text, port);
    gyre_address_format(&address, out);
    assert_string_equal(out, expected);
}

static void addresses_print_as_people_write_them(void **state)
{
    char out[GYRE_ADDRESS_TEXT];
    struct sockaddr_storage none = {0};
    (void)state;
    assert_prints("192.0.2.7", 29500, "192.0.2.7:29500");
    assert_prints("2001:db8::7", 1, "[2001:db8::7]:1");
    assert_prints("[2001:db8::7]", 65535, "[2001:db8::7]:65535");
    gyre_address_format(&none, out);
    assert_string_equal(out, "(no address)");
}

static void packed_addresses_come_back(void **state)
{
    static const char *const texts[] = {"192.0.2.7", "2001:db8::7", "127.0.0.1", "::1"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        uint8_t bytes[GYRE_ADDRESS_BYTES];
        struct sockaddr_storage in = address_of(texts[i], (uint16_t)(1000 + i)), out;
        struct gyre_cursor put = gyre_cursor_over(bytes, sizeof bytes);
        gyre_address_put(&put, &in);
        assert_false(put.bad);
        assert_ptr_equal(put.at, put.end);
        struct gyre_cursor get = gyre_cursor_over(bytes, sizeof bytes);
        gyre_address_get(&get, &out);
        assert_memory_equal(&in, &out, gyre_address_length(&in));
        assert_true(gyre_address_same_host(&in, &out));
        get = gyre_cursor_over(bytes, sizeof bytes - 1);
        gyre_address_get(&get, &out);
        assert_true(get.bad);
    }
}

static void loopback_is_recognised(void **state)
{
    (void)state;
    struct sockaddr_storage a = address_of("127.0.1.1", 1), b = address_of("::1", 1);
    struct sockaddr_storage c = address_of("192.0.2.7", 1), d = address_of("::ffff:127.0.0.1", 9);
    assert_true(gyre_address_is_loopback(&a));
    assert_true(gyre_address_is_loopback(&b));
    assert_false(gyre_address_is_loopback(&c));
    assert_false(gyre_address_is_loopback(&d));
    gyre_address_normalise(&d);
    assert_true(gyre_address_is_loopback(&d));
    assert_int_equal(d.ss_family, AF_INET);
    assert_int_equal(gyre_address_port(&d), 9);
}

static uint32_t scope_taken(const char *to_text, const char *own_text)
{
    struct sockaddr_storage to = address_of(to_text, 1), own = address_of(own_text, 2);
    struct sockaddr_in6 *own_6 = (struct sockaddr_in6 *)&own, *to_6 = (struct sockaddr_in6 *)&to;
    if (own.ss_family == AF_INET6)
        own_6->sin6_scope_id = 7;
    gyre_address_take_scope(&to, &own);
    return to.ss_family == AF_INET6 ? to_6->sin6_scope_id : 0;
}

static void only_link_local_addresses_take_a_scope(void **state)
{
    assert_int_equal(scope_taken("fe80::1", "fe80::2"), 7);
    assert_int_equal(scope_taken("2001:db8::7", "fe80::2"), 0);
    assert_int_equal(scope_taken("fe80::1", "192.0.2.7"), 0);
    assert_int_equal(scope_taken("192.0.2.7", "fe80::2"), 0);
}

static void a_wrong_name_is_named(void **state)
{
    struct sockaddr_storage address;
    struct gyre_trouble trouble = {0};
    (void)state;
    assert_true(gyre_address_resolve("no such host", 1, &address, 1, &trouble) < 0);
    assert_non_null(strstr(trouble.text, "\"no such host\""));
}

static void assert_chosen(const char *list, int family, const char *expected)
{
    char out[GYRE_ADDRESS_TEXT];
    struct sockaddr_storage address;
    struct gyre_trouble trouble = {0};
    if (gyre_address_choose(list, family, &address, &trouble))
        fail_msg("%s: %s", list, trouble.text);
    gyre_address_format(&address, out);
    assert_string_equal(out, expected);
}

static void interfaces_are_chosen_by_name_address_and_block(void **state)
{
    static const char *const wrong[] = {"eth99", "198.51.100.0/24", "", ","};
    (void)state;
    assert_chosen("lo", AF_INET, "127.0.0.1:0");
    assert_chosen("127.0.0.0/8", AF_UNSPEC, "127.0.0.1:0");
    assert_chosen("127.0.0.1", AF_INET, "127.0.0.1:0");
    assert_chosen("eth99, 198.51.100.0/24 lo", AF_INET, "127.0.0.1:0");
    for (int i = 0; i < 4; i++) {
        struct sockaddr_storage address;
        struct gyre_trouble trouble = {0};
        assert_int_equal(gyre_address_choose(wrong[i], AF_INET, &address, &trouble), GYRE_INVALID);
        assert_non_null(strstr(trouble.text, "this machine has lo 127.0.0.1"));
    }
}

static void expect_refused(const char *list, const char *says)
{
    struct sockaddr_storage address;
    struct gyre_trouble trouble = {0};
    assert_int_equal(gyre_address_choose(list, AF_INET, &address, &trouble), GYRE_INVALID);
    if (!strstr(trouble.text, says))
        fail_msg("%s: \"%s\" is not in \"%s\"", list, says, trouble.text);
}

static void a_wrong_block_is_told_as_one(void **state)
{
    (void)state;
    expect_refused("10.0.0.0/40", "10.0.0.0/40: expected an address and a prefix of 0 to 32");
    expect_refused("lo,127.0.0.1/x", ": 127.0.0.1/x: expected"); /* also behind what is there */
    expect_refused("fd00::/129", "prefix of 0 to 128");
    expect_refused("eth0/24", "eth0/24: expected an address and");
}

/* One letter of a real name is wrong. */
static void the_nearest_interface_is_named(void **state)
{
    struct ifaddrs *list, *own;
    char name[64] = "";
    (void)state;
    assert_false(getifaddrs(&list));
    for (own = list; own && !name[0]; own = own->ifa_next)
        if (own->ifa_addr && own->ifa_addr->sa_family == AF_INET && own->ifa_flags & IFF_UP &&
            strlen(own->ifa_name) > 3)
            snprintf(name, sizeof name, "%s", own->ifa_name);
    freeifaddrs(list);
    if (!name[0])
        skip(); /* nothing but lo */
    name[1] = '~';
    expect_refused(name, "(did you mean \"");
}

static void a_block_ends_where_its_bits_end(void **state)
{
    struct sockaddr_storage address;
    (void)state;
    assert_false(gyre_address_choose("127.0.0.0/31", AF_INET, &address, NULL));
    assert_int_equal(gyre_address_choose("127.0.0.2/31", AF_INET, &address, NULL), GYRE_INVALID);
    assert_false(gyre_address_choose("126.0.0.0/7", AF_INET, &address, NULL));
}

/* The port range: each port once, then EADDRINUSE. */
static void listeners_stay_inside_their_range(void **state)
{
    enum { PORTS = 4 };
    int fd[PORTS];
    bool seen[PORTS] = {false};
    (void)state;
    struct sockaddr_storage base = address_of("127.0.0.1", 0);
    uint16_t low = 20000;
    for (bool all = false; !all;
         low = (uint16_t)(low + PORTS)) { /* four neighbours that are free */
        assert_true(low < 60000);
        all = true;
        for (int i = 0; i < PORTS && all; i++) {
            struct sockaddr_storage probe = base;
            gyre_address_set_port(&probe, (uint16_t)(low + i));
            int one = gyre_socket_listen(&probe, 0, 0, 1);
            all = one >= 0;
            if (all)
                close(one);
        }
        if (all)
            break;
    }
    for (int i = 0; i < PORTS; i++) {
        struct sockaddr_storage address = base;
        fd[i] = gyre_socket_listen(&address, low, (uint16_t)(low + PORTS - 1), 1);
        assert_true(fd[i] >= 0);
        int place = gyre_address_port(&address) - low;
        assert_in_range(place, 0, PORTS - 1);
        assert_false(seen[place]);
        seen[place] = true;
    }
    struct sockaddr_storage address = base;
    assert_int_equal(gyre_socket_listen(&address, low, (uint16_t)(low + PORTS - 1), 1),
                     -EADDRINUSE);
    for (int i = 0; i < PORTS; i++)
        close(fd[i]);
}

static void a_socket_that_meets_itself_is_refused(void **state)
{
    (void)state;
    struct sockaddr_storage address = address_of("127.0.0.1", 0);
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_false(bind(fd, (struct sockaddr *)&address, gyre_address_length(&address)));
    assert_false(getsockname(fd, (struct sockaddr *)&address, &length));
    assert_false(connect(fd, (struct sockaddr *)&address, gyre_address_length(&address)));
    assert_int_equal(gyre_socket_connected(fd), -ECONNREFUSED);
    gyre_socket_drop(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_print_as_people_write_them),
        cmocka_unit_test(packed_addresses_come_back),
        cmocka_unit_test(loopback_is_recognised),
        cmocka_unit_test(only_link_local_addresses_take_a_scope),
        cmocka_unit_test(a_wrong_name_is_named),
        cmocka_unit_test(interfaces_are_chosen_by_name_address_and_block),
        cmocka_unit_test(a_wrong_block_is_told_as_one),
        cmocka_unit_test(the_nearest_interface_is_named),
        cmocka_unit_test(a_block_ends_where_its_bits_end),
        cmocka_unit_test(listeners_stay_inside_their_range),
        cmocka_unit_test(a_socket_that_meets_itself_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Files in which rank 0 is looked for: what is read, and what is refused without waiting. Where it
 * listens. Whole joins by a file are in tests/program/job/join.c. */
#include "rig/file_room.h"
#include "rig/test.h"

#include "transport/join/place.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>

static struct gyre_trouble trouble;

static int find(const char *path)
{
    struct gyre_job job = {.root_kind = GYRE_ROOT_FILE};
    struct sockaddr_storage address[2];
    snprintf(job.root_file, sizeof job.root_file, "%s", path);
    trouble = (struct gyre_trouble){0};
    return gyre_rendezvous_find(&job, address, 2, &trouble);
}

static void an_address_is_read(void **state)
{
    assert_int_equal(find(file_room_make("root", "127.0.0.1 4000\n", 15)), 1);
    assert_int_equal(find(file_room_name("none")), -EAGAIN);
    assert_non_null(strstr(trouble.text, "rank 0 has not written"));
    assert_int_equal(find(file_room_make("torn", "127.0.0.1 40", 12)), -EAGAIN);
}

/* A plain open of the FIFO would wait until the test's time is over. */
static void what_is_no_file_is_refused(void **state)
{
    char target[256];
    assert_int_equal(mkfifo(file_room_name("fifo"), 0600), 0);
    assert_int_equal(find(file_room_name("fifo")), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "fifo: is not a regular file"));
    snprintf(target, sizeof target, "%s", file_room_make("target", "127.0.0.1 4000\n", 15));
    assert_int_equal(symlink(target, file_room_name("link")), 0);
    assert_int_equal(find(file_room_name("link")), -ELOOP);
    snprintf(target, sizeof target, "%s", file_room_make("open", "127.0.0.1 4000\n", 15));
    assert_int_equal(chmod(target, 0666), 0);
    assert_int_equal(find(target), GYRE_REFUSED);
    assert_non_null(strstr(trouble.text, "writable by nobody else"));
}

/* A name that nobody knows is passed over, unless there is no other. */
static void further_hosts_are_looked_at(void **state)
{
    struct gyre_job job = {.root_kind = GYRE_ROOT_ADDRESS,
                           .root_host = "no-such-host.invalid",
                           .root_port = 4000,
                           .root_port_tries = 1,
                           .root_hosts = "127.0.0.2,no-such-host.invalid,,127.0.0.3"};
    struct sockaddr_storage address[4];
    assert_int_equal(gyre_rendezvous_find(&job, address, 4, &trouble), 2);
    const struct sockaddr_in *second = (const struct sockaddr_in *)&address[1];
    assert_int_equal(ntohl(second->sin_addr.s_addr), 0x7f000003);
    assert_int_equal(ntohs(second->sin_port), 4000);
    assert_int_equal(gyre_rendezvous_find(&job, address, 1, &trouble), 1);
    snprintf(job.root_hosts, sizeof job.root_hosts, "no-such-host.invalid");
    trouble = (struct gyre_trouble){0};
    assert_true(gyre_rendezvous_find(&job, address, 4, &trouble) < 0);
    assert_non_null(strstr(trouble.text, "no-such-host.invalid"));
}

/* A machine's own name may mean loopback only, as Debian writes it into /etc/hosts, or an address
 * that a translator of addresses has: others come from outside. Loopback that is meant is kept
 * to. */
static void a_name_for_loopback_is_for_all(void **state)
{
    static const struct {
        const char *host;
        int family;
        in_addr_t address;
    } names[] = {{"0x7f.1", AF_INET6, 0},
                 {"192.0.2.1", AF_INET6, 0},
                 {"127.0.0.1", AF_INET, INADDR_LOOPBACK}};
    for (int i = 0; i < 3; i++) {
        struct gyre_job job = {.root_kind = GYRE_ROOT_ADDRESS, .root_port_tries = 1};
        const struct gyre_rendezvous_wish wish = {.job = &job};
        struct gyre_rendezvous place = {{0}, 0, NULL};
        struct sockaddr_storage is;
        socklen_t length = sizeof is;
        snprintf(job.root_host, sizeof job.root_host, "%s", names[i].host);
        assert_int_equal(gyre_rendezvous_open(&wish, &place, &trouble), 0);
        assert_true(place.listeners > 0);
        assert_int_equal(getsockname(place.listener[0], (struct sockaddr *)&is, &length), 0);
        if (is.ss_family == AF_INET)
            assert_int_equal(ntohl(((struct sockaddr_in *)&is)->sin_addr.s_addr), names[i].address);
        else
            assert_int_equal(names[i].family, AF_INET6);
        gyre_rendezvous_close(&place);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_read),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(further_hosts_are_looked_at),
        cmocka_unit_test(a_name_for_loopback_is_for_all),
    };
    return cmocka_run_group_tests(tests, file_room_open, file_room_close);
}

/* Machines for tests. What they are made of goes with the namespaces, when the last process has. */
#include "nemesis/machines.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char set_up[] =
    "exec 2>/dev/null; mount --make-rprivate / && mount -t tmpfs tmpfs /run && mkdir /run/netns &&"
    "ip link add between type bridge && ip link set between up && for i in $(seq 0 %d); do"
    "  ip netns add rank$i && ip link add port$i type veth peer name way netns rank$i &&"
    "  ip link set port$i master between up && ip -n rank$i link set lo up &&"
    "  ip -n rank$i address add 10.77.0.$((i + 1))/24 dev way &&"
    "  ip -n rank$i link set way up || exit 1; done";

bool machines_run(const char *format, ...)
{
    char command[1024];
    va_list words;
    va_start(words, format);
    int length = vsnprintf(command, sizeof command, format, words);
    va_end(words);
    return length < (int)sizeof command && system(command) == 0;
}

bool machines_make(int machines)
{
    return unshare(CLONE_NEWNS | CLONE_NEWNET) == 0 && machines_run(set_up, machines - 1);
}

void machines_enter(int machine)
{
    char path[64];
    snprintf(path, sizeof path, "/run/netns/rank%d", machine);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET))
        abort();
    close(fd);
    setenv("MASTER_ADDR", "10.77.0.1", 1);
    setenv("MASTER_PORT", "29500", 1);
}

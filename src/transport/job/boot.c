/* The running kernel's id. Tested by tests/program/job/join.c. */
#include "transport/job/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

size_t gyre_boot_id(char text[GYRE_BOOT_ID_TEXT])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : TEMP_FAILURE_RETRY(read(fd, text, GYRE_BOOT_ID_TEXT - 1));
    if (fd >= 0)
        close(fd);
    length = length > 0 ? length : 0;
    text[length] = '\0';
    return (size_t)length;
}

/* One trial: two processes, as two ranks would be.
 *
 *     owner, on `device`                      peer, on `other`
 *     alloc, fill ── descriptor, a socket ──▶ import, copy to its own memory, then to the host
 *     free  ◀────────────── done ──────────── sum of the bytes as expected?
 *
 * Words and verdict stand in a page that they share with the caller. What hangs in a driver is
 * ended by an alarm. Tested by tests/program/cuda/doctor.c. */
#include "cli/doctor/checks/try.h"

#include "base/crc.h"
#include "device/device.h"
#include "transport/net/descriptors.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH  (2u << 20)
#define SECONDS 30u

struct trial_result {
    bool told, right;
    char words[600];
};

struct trial {
    const struct gyre_device *cuda;
    int device; /* of this process */
    struct gyre_device_queue *queue;
    struct gyre_region region;
    uint8_t *bytes; /* LENGTH of the host's */
    struct gyre_trouble trouble;
};

/* By the device, and over when this returns. */
static int copy_in_trial(struct trial *trial, void *to, const void *from)
{
    uint64_t token;
    int done, status = trial->cuda->copy(trial->queue, to, from, LENGTH, 1);
    while (status == 0) {
        done = trial->cuda->query(trial->queue, &token, 1);
        status = done > 0 ? 1 : done;
    }
    return status > 0 ? 0
                      : gyre_trouble_set(&trial->trouble, status, "copying on device %d: %s",
                                         trial->device, gyre_status_name(status));
}

static int open_trial(struct trial *trial, int device)
{
    *trial = (struct trial){.cuda = gyre_device_of(GYRE_MEMORY_CUDA), .device = device};
    trial->bytes = malloc(LENGTH);
    if (!trial->bytes)
        return gyre_trouble_set(&trial->trouble, -ENOMEM, "no memory for a trial");
    for (uint32_t i = 0; i < LENGTH; i++)
        trial->bytes[i] = (uint8_t)(i * 31 >> 4 ^ i);
    return trial->cuda->queue_create(device, &trial->queue, &trial->trouble);
}

/* -- the two processes ------------------------------------------------------------------------- */

static void tell_result(struct trial_result *trial_result, bool right, const char *words)
{
    if (trial_result->told)
        return;
    snprintf(trial_result->words, sizeof(trial_result->words), "%s", words);
    trial_result->right = right;
    trial_result->told = true;
}

static void own(int device, int socket, struct trial_result *trial_result)
{
    char word = 1;
    struct trial trial;
    int status = open_trial(&trial, device);
    if (!status)
        status = trial.cuda->alloc(device, LENGTH, GYRE_SHARE_OPEN, &trial.region, &trial.trouble);
    if (!status)
        status = copy_in_trial(&trial, trial.region.base, trial.bytes);
    if (!status && trial.region.fd < 0)
        status = gyre_trouble_set(&trial.trouble, GYRE_UNSUPPORTED,
                                  "the system gives no handle to pass memory of device %d along",
                                  device);
    if (status)
        tell_result(trial_result, false, trial.trouble.text);
    else if (gyre_descriptors_send(socket, &word, 1, &trial.region.fd, 1, 0) == 1)
        (void)!read(socket, &word, 1);
    trial.cuda->free(&trial.region);
}

static void inspect_device(int device, int socket, struct trial_result *trial_result)
{
    char word;
    int fd;
    struct trial trial;
    gyre_descriptors_receive(socket, &word, 1, &fd, 1, 0);
    if (fd < 0) /* the owner has ended without one */
        return;
    int status = open_trial(&trial, device);
    struct gyre_region own = {0};
    uint32_t sum = status ? 0 : gyre_crc32c(0, trial.bytes, LENGTH);
    if (!status)
        status =
            trial.cuda->import(device, fd, LENGTH, GYRE_SHARE_OPEN, &trial.region, &trial.trouble);
    if (!status)
        status = trial.cuda->alloc(device, LENGTH, GYRE_SHARE_OPEN, &own, &trial.trouble);
    if (!status)
        status = copy_in_trial(&trial, own.base, trial.region.base);
    if (!status) {
        memset(trial.bytes, 0, LENGTH);
        status = copy_in_trial(&trial, trial.bytes, own.base);
    }
    if (status)
        tell_result(trial_result, false, trial.trouble.text);
    else if (gyre_crc32c(0, trial.bytes, LENGTH) != sum)
        tell_result(trial_result, false,
                    "what was copied differs from what was written: do not use this pair");
    else
        tell_result(trial_result, true, "2 MiB were mapped and copied, and were right");
    trial.cuda->free(&own);
    trial.cuda->unimport(&trial.region);
}

static pid_t fork_trial(void (*body)(int, int, struct trial_result *), int device,
                        const int socket[2], int end, struct trial_result *trial_result)
{
    fflush(NULL);
    pid_t child = fork();
    if (child)
        return child;
    close(socket[!end]);
    signal(SIGALRM, SIG_DFL);
    alarm(SECONDS);
    body(device, socket[end], trial_result);
    _exit(0);
}

static void finish_trial(pid_t child, const char *who, struct trial_result *trial_result)
{
    int ended = 0;
    char words[80];
    if (child < 0 || waitpid(child, &ended, 0) != child)
        snprintf(words, sizeof(words), "the %s could not be started", who);
    else if (WIFSIGNALED(ended))
        snprintf(words, sizeof(words), "the %s ended by signal %d", who, WTERMSIG(ended));
    else
        return;
    trial_result->told = false;
    tell_result(trial_result, false, words);
}

bool gyre_doctor_try(int device, int other, char *words, size_t size)
{
    int socket[2];
    struct trial_result *trial_result = mmap(NULL, sizeof(*trial_result), PROT_READ | PROT_WRITE,
                                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (trial_result == MAP_FAILED ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socket)) {
        snprintf(words, size, "%s", gyre_status_name(-errno));
        return false;
    }
    pid_t owner = fork_trial(own, device, socket, 0, trial_result);
    pid_t peer = fork_trial(inspect_device, other, socket, 1, trial_result);
    close(socket[0]);
    close(socket[1]);
    finish_trial(peer, "peer", trial_result);
    finish_trial(owner, "owner", trial_result);
    bool right = trial_result->right;
    snprintf(words, size, "%s", trial_result->words);
    munmap(trial_result, sizeof(*trial_result));
    return right;
}

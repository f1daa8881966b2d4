/* Ranks meet where those of a job would: rank 0 listens at the job's rendezvous, the others connect
 * and prove the key. After the proof the bare socket is the agent's line, as a job's data
 * connections are bare.
 *
 *     rank 2                              rank 0
 *       │ ── connect ─────────────────────▶ │   refused, no answer, no route: told on rank 2
 *       │ ◀═ proof of the key, both ways ══▶ │   another key: told on both
 *       │ ◀─ hello, check, try … ────────── │
 *
 * The agent of rank 0's own host is a child of rank 0. Tested by
 * tests/program/cli/doctor_hosts.sh. */
#include "cli/doctor/hosts/meet.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "cli/doctor/hosts/agent.h"
#include "transport/join/place.h"
#include "transport/net/ports.h"
#include "transport/net/socket.h"
#include "transport/net/talk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PLACES   80
#define PROOF_S  30 /* a process may get no core for that long */
#define PROOF_NS (PROOF_S * GYRE_SECOND)
#define PAUSE_MS 50
#define GUESTS   16 /* that prove the key at a time */

struct guest {
    struct gyre_talk talk; /* fd -1: none */
    uint64_t since;
};

struct gathering {
    const struct gyre_job *job;
    struct gyre_survey *survey;
    struct gyre_rendezvous place;
    struct guest guest[GUESTS];
    int come;
};

static int start_talk(struct gyre_talk *talk, int fd, enum gyre_handshake_side side,
                      const struct gyre_job *job)
{
    uint8_t nonce[GYRE_NONCE_BYTES];
    struct gyre_claim claim = {.version_low = GYRE_PROTOCOL_LOW,
                               .version_high = GYRE_PROTOCOL_HIGH,
                               .epoch = job->epoch,
                               .rank = (uint32_t)job->rank,
                               .world = (uint32_t)job->world,
                               .purpose = GYRE_PURPOSE_CHECKUP};
    memcpy(claim.job, job->id, sizeof claim.job);
    memcpy(claim.key_id, job->key_id, sizeof claim.key_id);
    gyre_talk_open(talk, fd);
    if (gyre_random_bytes(nonce, sizeof nonce))
        return -EIO;
    return gyre_handshake_start(&talk->shake, side, &claim, job->key, nonce);
}

/* -- rank 0 ------------------------------------------------------------------------------------ */

static void take_guest(struct gathering *gathering, int fd)
{
    for (int i = 0; i < GUESTS; i++)
        if (gathering->guest[i].talk.fd < 0) {
            gathering->guest[i].since = gyre_now_ns();
            if (start_talk(&gathering->guest[i].talk, fd, GYRE_HANDSHAKE_SERVER, gathering->job))
                gyre_talk_close(&gathering->guest[i].talk);
            return;
        }
    close(fd);
}

static void admit(struct gathering *gathering, struct gyre_talk *talk)
{
    struct gyre_claim theirs = talk->shake.theirs;
    int code = (int)gyre_handshake_judge(&talk->shake);
    int fd = gyre_talk_take(talk);
    struct gyre_survey_host *host = code || theirs.rank >= (uint32_t)gathering->survey->n
                                        ? NULL
                                        : &gathering->survey->host[theirs.rank];
    if (!host || host->line.in >= 0) {
        close(fd);
        return;
    }
    (void)fcntl(fd, F_SETFL, 0);
    gyre_doctor_line_open(&host->line, fd, fd);
    gathering->come++;
}

/* A claim that is not proven is good enough for a hint. */
static void refuse_guest(struct gathering *gathering, struct gyre_talk *talk)
{
    const struct gyre_claim *theirs = &talk->shake.theirs;
    char id[2 * sizeof theirs->key_id + 1], own[2 * sizeof theirs->key_id + 1];
    bool other = talk->shake.claimed && theirs->rank > 0 &&
                 theirs->rank < (uint32_t)gathering->survey->n &&
                 memcmp(theirs->key_id, gathering->job->key_id, sizeof theirs->key_id);
    if (other) {
        struct gyre_survey_host *host = &gathering->survey->host[theirs->rank];
        gyre_hex_write(theirs->key_id, sizeof theirs->key_id, id);
        gyre_hex_write(gathering->job->key_id, sizeof theirs->key_id, own);
        *host->lost = 0;
        gyre_survey_lose(host, "copy one key file to all hosts (GYRE_KEY_FILE), mode 0600",
                         "its key is another one: %s, rank 0 has %s", id, own);
    }
    gyre_talk_close(talk);
}

static void step_guest(struct gathering *gathering, struct guest *guest)
{
    struct gyre_record record;
    int status = gyre_talk_step(&guest->talk, &record);
    if (status == 0)
        admit(gathering, &guest->talk);
    else if (status < 0)
        refuse_guest(gathering, &guest->talk);
    else if (gyre_now_ns() > guest->since + PROOF_NS)
        gyre_talk_close(&guest->talk);
}

static void serve_door(struct gathering *gathering)
{
    struct sockaddr_storage from;
    struct pollfd wait[4 + GUESTS];
    int listeners = gathering->place.listeners;
    for (int i = 0; i < listeners; i++)
        wait[i] = (struct pollfd){.fd = gathering->place.listener[i], .events = POLLIN};
    for (int i = 0; i < GUESTS; i++)
        wait[listeners + i] = (struct pollfd){.fd = gathering->guest[i].talk.fd, .events = POLLIN};
    (void)poll(wait, (nfds_t)(listeners + GUESTS), PAUSE_MS);
    for (int i = 0; i < GUESTS; i++)
        if (gathering->guest[i].talk.fd >= 0)
            step_guest(gathering, &gathering->guest[i]);
    for (int i = 0; i < listeners; i++) {
        int fd = wait[i].revents ? gyre_socket_accept(gathering->place.listener[i], &from) : -1;
        if (fd >= 0)
            take_guest(gathering, fd);
    }
}

static int start_own_agent(struct gyre_survey *survey, struct gyre_trouble *trouble)
{
    int line[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line))
        return gyre_trouble_set(trouble, -errno, "no agent can be started: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        close(line[0]);
        _exit(gyre_doctor_serve(line[1], line[1]));
    }
    close(line[1]);
    gyre_doctor_line_open(&survey->host[0].line, line[0], line[0]);
    return child > 0 ? 0 : gyre_trouble_set(trouble, -errno, "fork: %s", strerror(errno));
}

static int listen_for_ranks(struct gathering *gathering, struct gyre_trouble *trouble)
{
    struct gyre_rendezvous_wish wish = {.job = gathering->job};
    const char *interface = getenv("GYRE_INTERFACE");
    wish.interface = interface && *interface ? interface : NULL;
    int status = gyre_ports_read(&wish.port_low, &wish.port_high, trouble);
    return status ? status : gyre_rendezvous_open(&wish, &gathering->place, trouble);
}

static void lose_absent(struct gyre_survey *survey, int wait_ms)
{
    for (int i = 0; i < survey->n; i++) {
        struct gyre_survey_host *host = &survey->host[i];
        snprintf(host->name, sizeof host->name, "rank %d", i);
        if (host->line.in < 0)
            gyre_survey_lose(
                host, "what it says itself stands on its own standard error; was it started?",
                "it has not come within %d s", wait_ms / 1000);
    }
}

static int gather_ranks(const struct gyre_job *job, int wait_ms, struct gyre_survey *survey,
                        struct gyre_trouble *trouble)
{
    static struct gathering gathering;
    uint64_t until = gyre_now_ns() + (uint64_t)wait_ms * GYRE_MS;
    gathering = (struct gathering){.job = job, .survey = survey, .come = 1};
    for (int i = 0; i < GUESTS; i++)
        gyre_talk_open(&gathering.guest[i].talk, -1);
    int status = start_own_agent(survey, trouble);
    if (!status)
        status = listen_for_ranks(&gathering, trouble);
    while (!status && gathering.come < survey->n && gyre_now_ns() < until)
        serve_door(&gathering);
    for (int i = 0; i < GUESTS; i++)
        gyre_talk_close(&gathering.guest[i].talk);
    gyre_rendezvous_close(&gathering.place);
    if (!status)
        lose_absent(survey, wait_ms);
    return status;
}

/* -- the others -------------------------------------------------------------------------------- */

/* 0: proven, the socket is bare and blocking. */
static int prove_key(const struct gyre_job *job, int fd)
{
    struct gyre_talk talk;
    struct gyre_record record;
    uint64_t until = gyre_now_ns() + PROOF_NS;
    int status = start_talk(&talk, fd, GYRE_HANDSHAKE_CLIENT, job);
    while (!status && (status = gyre_talk_step(&talk, &record)) == GYRE_AGAIN) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (gyre_now_ns() > until)
            status = GYRE_TIMED_OUT;
        else
            status = poll(&wait, 1, PAUSE_MS) < 0 ? -errno : 0;
    }
    while (!status && gyre_talk_flush(&talk) == GYRE_AGAIN && gyre_now_ns() < until)
        poll(NULL, 0, 1);
    if (status) {
        gyre_talk_close(&talk);
        return status;
    }
    (void)gyre_talk_take(&talk);
    return fcntl(fd, F_SETFL, 0);
}

static void explain_refusal(const struct gyre_job *job, const char *address,
                            struct gyre_trouble *why)
{
    char id[2 * sizeof job->key_id + 1];
    gyre_hex_write(job->key_id, sizeof job->key_id, id);
    why->status = 0;
    gyre_trouble_set(why, GYRE_REFUSED,
                     "%s hangs up: rank 0 has another key than this one (id %s), or is of another "
                     "job, or not `gyre doctor`",
                     address, id);
}

static void explain_silence(const char *address, struct gyre_trouble *why)
{
    why->status = 0;
    gyre_trouble_set(why, GYRE_TIMED_OUT,
                     "%s takes the connection and does not prove its key within %d s: rank 0 gets "
                     "no core, or something else answers there",
                     address, PROOF_S);
}

/* A descriptor, or a negative status and why. */
static int reach_place(const struct gyre_job *job, const struct sockaddr_storage *place,
                       struct gyre_trouble *why)
{
    char address[GYRE_ADDRESS_TEXT], found[256], advice[256];
    gyre_address_format(place, address);
    int fd = gyre_probe_connect(place, NULL);
    if (fd < 0) {
        gyre_probe_explain(-fd, address, found, advice, sizeof found);
        why->status = 0;
        return gyre_trouble_set(why, fd, "%s%s%s", found, *advice ? ": " : "", advice);
    }
    int status = prove_key(job, fd);
    if (status == GYRE_TIMED_OUT)
        explain_silence(address, why);
    else if (status)
        explain_refusal(job, address, why);
    return status ? status : fd;
}

/* Rank 0 may start later, or at another of the places: all are tried until the time is over, and
 * once in any case. */
static int find_rank_0(struct gyre_job *job, int wait_ms, struct gyre_trouble *trouble)
{
    struct sockaddr_storage place[PLACES];
    struct gyre_trouble why = {0};
    uint64_t until = gyre_now_ns() + (uint64_t)wait_ms * GYRE_MS;
    int fd = -1;
    do {
        struct gyre_trouble finding = {0};
        int count = gyre_rendezvous_find(job, place, PLACES, &finding);
        if (count < 0)
            why = finding;
        for (int i = 0; i < count && fd < 0; i++)
            fd = reach_place(job, &place[i], &why);
        if (fd < 0)
            poll(NULL, 0, PAUSE_MS);
    } while (fd < 0 && gyre_now_ns() < until);
    if (fd < 0)
        return gyre_trouble_set(trouble, why.status ? why.status : GYRE_TIMED_OUT,
                                "rank %d on %s did not reach rank 0 within %d s: %s", job->rank,
                                gyre_host_name(), wait_ms / 1000, why.text);
    return fd;
}

/* -- all of them ------------------------------------------------------------------------------- */

int gyre_meet_ranks(int wait_ms, bool *speaks, struct gyre_survey *survey,
                    struct gyre_trouble *trouble)
{
    static struct gyre_job job;
    *speaks = false;
    int status = gyre_job_discover(NULL, &job, trouble);
    if (!status && job.world < 2)
        status =
            gyre_trouble_set(trouble, GYRE_INVALID,
                             "--job: one rank alone has no ways to try: start one on each host, "
                             "as in `srun --ntasks-per-node=1 gyre doctor --job`, or name the "
                             "hosts with --hosts");
    if (!status && job.world > GYRE_SURVEY_MOST)
        status =
            gyre_trouble_set(trouble, GYRE_INVALID,
                             "--job: %d ranks are too many; start one on each host, at most %d",
                             job.world, GYRE_SURVEY_MOST);
    if (status)
        return status;
    if (job.rank) {
        int fd = find_rank_0(&job, wait_ms, trouble);
        return fd < 0 ? fd : gyre_doctor_serve(fd, fd);
    }
    *speaks = true;
    if ((status = gyre_survey_init(survey, job.world)))
        return gyre_trouble_set(trouble, status, "no memory for %d ranks", job.world);
    return gather_ranks(&job, wait_ms, survey, trouble);
}

static bool is_looked_at(const struct gyre_survey *survey, int kept, const char *machine)
{
    for (int i = 0; i < kept; i++)
        if (*machine && !strcmp(survey->host[i].machine, machine))
            return true;
    return false;
}

/* Its host's name, with the rank where another has the same. */
static void name_by_host(const struct gyre_survey *survey, int kept, int rank,
                         struct gyre_survey_host *host)
{
    bool same = false;
    for (int i = 0; i < kept; i++)
        same |= !strcmp(survey->host[i].host, host->host);
    if (same)
        snprintf(host->name, sizeof host->name, "%s (rank %d)", host->host, rank);
    else
        snprintf(host->name, sizeof host->name, "%s", host->host);
}

void gyre_meet_thin_out(struct gyre_survey *survey)
{
    int kept = 0;
    for (int i = 0; i < survey->n; i++) {
        struct gyre_survey_host *host = &survey->host[i];
        if (is_looked_at(survey, kept, host->machine)) {
            gyre_doctor_say(&host->line, "bye");
            gyre_doctor_line_close(&host->line);
            continue;
        }
        if (!*host->lost)
            name_by_host(survey, kept, i, host);
        if (kept != i)
            survey->host[kept] = *host;
        kept++;
    }
    survey->n = kept;
}

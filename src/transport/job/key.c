/* The user's secret, and the job's key made from it.
 *
 *     options.key ─▶ GYRE_KEY_FD ─▶ GYRE_KEY ─▶ GYRE_KEY_FILE ─▶ ~/.config/gyre/key
 *                                      │
 *                               the user's key ──HMAC────────▶ key_id   told: "which is yours?"
 *                                      └──────── HKDF, id ───▶ key      proves: "I belong here"
 *
 * The launcher passes the key by a descriptor, which shows in no process list and on no disk. A
 * descriptor can be read only once, so its key is kept for a second gyre_init() in this process.
 *
 * A file is believed only if no other user can have read or written it: regular, owned by this
 * user, mode 0600 or stricter, no link. The file in the home directory is made at first need,
 * perhaps by many ranks at once on many hosts that share the directory. Each rank writes a file of
 * its own and link(2)s it to the name. The first one wins, and all ranks read the file that then
 * has the name. No rank ever reads half a key, and no lock is needed.
 *
 * Ranks that meet in a store, and have none of the first four, take a key that rank 0 draws and
 * leaves there.
 *
 * Secrets are wiped from every buffer that held them, and no message shows one. */
#include "transport/job/inside.h"
#include "transport/net/crypto.h"
#include "base/env.h"
#include "base/bytes.h"
#include "base/disk/regular.h"
#include "base/log.h"
#include "base/rng.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_BYTES (2 * GYRE_KEY_BYTES) /* a key in hexadecimal */
/* More than any key with its blanks: a longer text is no key. */
#define READ_BYTES   256
#define MAKE_TRIES   8 /* a file that is removed and made all the time cannot be helped */
#define KEY_EXPECTED "expected 64 hexadecimal digits or 32 bytes"

/* -- reading a key ----------------------------------------------------------------------------- */

/* Parses a key: 32 bytes, or 64 digits with blanks behind them (an editor's newline). */
static bool parse_key(const uint8_t *bytes, size_t length, uint8_t key[GYRE_KEY_BYTES])
{
    if (length == GYRE_KEY_BYTES) {
        memcpy(key, bytes, GYRE_KEY_BYTES);
        return true;
    }
    while (length > 0 && isspace(bytes[length - 1])) {
        length--;
    }
    return length == TEXT_BYTES && gyre_hex_read((const char *)bytes, key, GYRE_KEY_BYTES);
}

/* Reads up to `room` bytes until the end of the file; -errno: reading failed. */
static ssize_t read_key_bytes(int fd, uint8_t *bytes, size_t room)
{
    size_t length = 0;
    while (length < room) {
        ssize_t got = read(fd, bytes + length, room - length);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -errno;
        }
        if (got == 0) {
            break;
        }
        length += (size_t)got;
    }
    return (ssize_t)length;
}

/* Reads a key from a descriptor, which stays open; `name` is what messages call the place. */
static int read_key_from(int fd, const char *name, uint8_t key[GYRE_KEY_BYTES],
                         struct gyre_trouble *trouble)
{
    uint8_t bytes[READ_BYTES];
    int status = 0;
    ssize_t length = read_key_bytes(fd, bytes, sizeof bytes);
    if (length < 0) {
        status = gyre_trouble_set(trouble, GYRE_INVALID, "cannot read the key from %s: %s", name,
                                  strerror((int)-length));
    } else if (!parse_key(bytes, (size_t)length, key)) {
        status =
            gyre_trouble_set(trouble, GYRE_INVALID,
                             "%s holds %zd bytes that are no key: " KEY_EXPECTED, name, length);
    }
    gyre_wipe(bytes, sizeof bytes);
    return status;
}

/* -- from the launcher ------------------------------------------------------------------------- */

static struct {
    bool known;
    int fd;
    uint8_t key[GYRE_KEY_BYTES];
} inherited;

static int key_from_fd(uint8_t key[GYRE_KEY_BYTES], struct gyre_trouble *trouble)
{
    char name[48];
    int64_t fd = -1;
    int status = gyre_env_int("GYRE_KEY_FD", 0, INT_MAX, &fd, trouble);
    if (status) {
        return status;
    }
    if (inherited.known && inherited.fd == fd) {
        memcpy(key, inherited.key, GYRE_KEY_BYTES);
        return 0;
    }
    snprintf(name, sizeof name, "descriptor %d (GYRE_KEY_FD)", (int)fd);
    status = read_key_from((int)fd, name, key, trouble);
    if (status) {
        return gyre_trouble_wrap(trouble, "the launcher's key did not arrive");
    }
    close((int)fd);
    inherited.known = true;
    inherited.fd = (int)fd;
    memcpy(inherited.key, key, GYRE_KEY_BYTES);
    return 0;
}

static int key_from_text(const char *text, uint8_t key[GYRE_KEY_BYTES],
                         struct gyre_trouble *trouble)
{
    size_t length = strlen(text);
    if (length == TEXT_BYTES && gyre_hex_read(text, key, GYRE_KEY_BYTES)) {
        return 0;
    }
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "GYRE_KEY holds %zu characters that are no key: expected 64 "
                            "hexadecimal digits (better: GYRE_KEY_FILE, which no process list "
                            "shows)",
                            length);
}

/* -- from a file ------------------------------------------------------------------------------- */

static int check_key_file(const struct stat *file, const char *path, struct gyre_trouble *trouble)
{
    if (file->st_uid != geteuid()) {
        return gyre_trouble_set(trouble, GYRE_REFUSED,
                                "key file %s belongs to user %u and this process to user %u: use "
                                "a file of your own",
                                path, (unsigned)file->st_uid, (unsigned)geteuid());
    }
    if (file->st_mode & (S_IRWXG | S_IRWXO)) {
        return gyre_trouble_set(trouble, GYRE_REFUSED,
                                "key file %s has mode %04o, so others can read or write it: "
                                "chmod 600 %s",
                                path, (unsigned)file->st_mode & 07777, path);
    }
    return 0;
}

/* Reads a key from a file. -ENOENT, without a message: there is no such file. */
static int key_from_file(const char *path, uint8_t key[GYRE_KEY_BYTES],
                         struct gyre_trouble *trouble)
{
    struct stat file;
    int fd = gyre_regular_open(path, O_NOFOLLOW, &file);
    if (fd == -ENOENT || fd == -ENOTDIR) {
        return -ENOENT;
    }
    if (fd == GYRE_INVALID) {
        return gyre_trouble_set(trouble, GYRE_REFUSED, "key file %s is not a regular file", path);
    }
    if (fd == -ELOOP) {
        return gyre_trouble_set(trouble, GYRE_REFUSED,
                                "key file %s is a symbolic link: name the file itself", path);
    }
    if (fd < 0) {
        return gyre_trouble_set(trouble, GYRE_INVALID, "cannot open key file %s: %s", path,
                                strerror(-fd));
    }
    int status = check_key_file(&file, path, trouble);
    if (status == 0) {
        status = read_key_from(fd, path, key, trouble);
    }
    close(fd);
    return status;
}

static int key_from_named_file(const char *path, uint8_t key[GYRE_KEY_BYTES],
                               struct gyre_trouble *trouble)
{
    int status = key_from_file(path, key, trouble);
    if (status == -ENOENT) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "GYRE_KEY_FILE is \"%s\": no such file; make it by (umask 077; "
                                "openssl rand -hex 32 > %s)",
                                path, path);
    }
    return status;
}

/* -- the file in the home directory ------------------------------------------------------------ */

static bool write_new_key(int fd)
{
    uint8_t key[GYRE_KEY_BYTES];
    char text[TEXT_BYTES + 2];
    bool ok = gyre_random_bytes(key, sizeof key) == 0;
    gyre_hex_write(key, sizeof key, text);
    text[TEXT_BYTES] = '\n';
    ok = ok && gyre_regular_write(fd, text, TEXT_BYTES + 1) && fsync(fd) == 0;
    gyre_wipe(key, sizeof key);
    gyre_wipe(text, sizeof text);
    return ok;
}

/* Leaves a key at `path`: this rank's own, or that of a rank that was faster. */
static int make_key_file(const char *path, struct gyre_trouble *trouble)
{
    char own[PATH_MAX];
    uint64_t draw = 0;
    gyre_random_bytes(&draw, sizeof draw);
    snprintf(own, sizeof own, "%s.%d.%016llx", path, (int)getpid(), (unsigned long long)draw);
    int fd = open(own, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write_new_key(fd);
    if (fd >= 0) {
        ok = close(fd) == 0 && ok;
    }
    ok = ok && (link(own, path) == 0 || errno == EEXIST);
    int error = errno;
    if (fd >= 0) {
        unlink(own);
    }
    if (!ok) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "cannot make key file %s: %s; make one elsewhere and name it by "
                                "GYRE_KEY_FILE",
                                path, strerror(error));
    }
    return 0;
}

#define FOLDER_MAX (PATH_MAX - 64)

static int key_from_home(uint8_t key[GYRE_KEY_BYTES], struct gyre_trouble *trouble)
{
    char folder[FOLDER_MAX], path[PATH_MAX];
    int status = gyre_job_config_folder(folder, sizeof folder, trouble);
    if (status) {
        return status;
    }
    snprintf(path, sizeof path, "%s/key", folder);
    status = key_from_file(path, key, trouble);
    for (int i = 0; status == -ENOENT && i < MAKE_TRIES; i++) {
        status = gyre_job_make_folder(folder, trouble);
        if (status == 0) {
            status = make_key_file(path, trouble);
        }
        if (status == 0) {
            status = key_from_file(path, key, trouble);
        }
    }
    return status == -ENOENT ? gyre_trouble_set(trouble, GYRE_INVALID,
                                                "key file %s vanishes as often as it is made", path)
                             : status;
}

/* -- the job's key ----------------------------------------------------------------------------- */

/* GYRE_AGAIN: the user gives none, and `lies_in_place` says that none of the user's own is
 * needed. */
static int find_user_key(const struct gyre_options *options, int world, bool lies_in_place,
                         uint8_t *key, struct gyre_trouble *trouble)
{
    const char *text = gyre_job_variable("GYRE_KEY"), *path = gyre_job_variable("GYRE_KEY_FILE");
    if (options->key) {
        memcpy(key, options->key, GYRE_KEY_BYTES);
        return 0;
    }
    if (gyre_job_variable("GYRE_KEY_FD")) {
        return key_from_fd(key, trouble);
    }
    if (text) {
        return key_from_text(text, key, trouble);
    }
    if (world == 1) {
        return gyre_random_bytes(key, GYRE_KEY_BYTES);
    }
    if (!path && lies_in_place) {
        return GYRE_AGAIN;
    }
    return path ? key_from_named_file(path, key, trouble) : key_from_home(key, trouble);
}

static int derive_key_id(const uint8_t user_key[GYRE_KEY_BYTES], uint8_t key_id[8])
{
    static const char name[] = "gyre key id";
    uint8_t code[GYRE_DIGEST_BYTES];
    struct gyre_piece constant = {name, sizeof name - 1};
    int status = gyre_hmac_sha256(user_key, &constant, 1, code);
    memcpy(key_id, code, 8);
    return status;
}

static int derive_job_key(struct gyre_job *job, const uint8_t user_key[GYRE_KEY_BYTES],
                          struct gyre_trouble *trouble)
{
    static const char purpose[] = "gyre job key";
    int status = derive_key_id(user_key, job->key_id);
    if (status == 0) {
        status = gyre_hkdf_sha256((struct gyre_piece){user_key, GYRE_KEY_BYTES},
                                  (struct gyre_piece){job->id, sizeof job->id},
                                  (struct gyre_piece){purpose, sizeof purpose - 1}, job->key,
                                  sizeof job->key);
    }
    return status ? gyre_trouble_set(trouble, status, "libcrypto cannot derive the job's key") : 0;
}

int gyre_job_adopt_key(struct gyre_job *job, const uint8_t key[GYRE_KEY_BYTES])
{
    memcpy(job->key, key, GYRE_KEY_BYTES);
    return derive_key_id(key, job->key_id);
}

/* Draws the key that rank 0 leaves where the ranks meet. Other ranks find it there. */
static int draw_key_for_place(struct gyre_job *job, struct gyre_trouble *trouble)
{
    uint8_t key[GYRE_KEY_BYTES];
    job->key_in_place = true;
    int status = gyre_random_bytes(key, sizeof key);
    if (status == 0) {
        status = gyre_job_adopt_key(job, key);
    }
    gyre_wipe(key, sizeof key);
    return status ? gyre_trouble_set(trouble, status, "cannot draw a key for the group") : 0;
}

static int read_auth(bool *authenticated, struct gyre_trouble *trouble)
{
    static const char *const words[] = {"key", "none"};
    int index = 0;
    int status = gyre_env_word("GYRE_AUTH", words, 2, &index, trouble);
    *authenticated = index == 0;
    return status;
}

int gyre_job_key_find(const struct gyre_options *options, struct gyre_job *job,
                      struct gyre_trouble *trouble)
{
    uint8_t user_key[GYRE_KEY_BYTES];
    int status = read_auth(&job->authenticated, trouble);
    if (status) {
        return status;
    }
    if (!job->authenticated) {
        gyre_log(GYRE_LOG_WARN, "GYRE_AUTH=none: whoever reaches a port of this job can join it, "
                                "read its data and change them");
        return 0;
    }
    status = find_user_key(options, job->world, job->group, user_key, trouble);
    if (status == GYRE_AGAIN) {
        return draw_key_for_place(job, trouble);
    }
    if (status == 0) {
        status = derive_job_key(job, user_key, trouble);
    }
    gyre_wipe(user_key, sizeof user_key);
    return status;
}

int gyre_job_user_key(uint8_t key[GYRE_KEY_BYTES], struct gyre_trouble *trouble)
{
    const struct gyre_options none = {0};
    return find_user_key(&none, 2, false, key, trouble);
}

/* -- a look at it ------------------------------------------------------------------------------ */

static int look_for_key_file(struct gyre_key_place *place, uint8_t *key,
                             struct gyre_trouble *trouble)
{
    char folder[FOLDER_MAX];
    const char *named = gyre_job_variable("GYRE_KEY_FILE");
    int status = named ? 0 : gyre_job_config_folder(folder, sizeof folder, trouble);
    if (status) {
        return status;
    }
    place->origin = GYRE_KEY_FILE;
    snprintf(place->path, sizeof place->path, "%s%s", named ? named : folder, named ? "" : "/key");
    status =
        named ? key_from_named_file(named, key, trouble) : key_from_file(place->path, key, trouble);
    if (status == -ENOENT) {
        place->origin = GYRE_KEY_TO_MAKE;
        return GYRE_AGAIN;
    }
    return status;
}

/* GYRE_AGAIN: there is none yet. */
static int look_for_key(struct gyre_key_place *place, uint8_t *key, struct gyre_trouble *trouble)
{
    const char *text = gyre_job_variable("GYRE_KEY");
    if (gyre_job_variable("GYRE_KEY_FD")) {
        place->origin = GYRE_KEY_LAUNCHED;
        return key_from_fd(key, trouble);
    }
    if (text) {
        place->origin = GYRE_KEY_VARIABLE;
        return key_from_text(text, key, trouble);
    }
    return look_for_key_file(place, key, trouble);
}

int gyre_job_find_key(struct gyre_key_place *place, struct gyre_trouble *trouble)
{
    uint8_t key[GYRE_KEY_BYTES];
    bool wanted;
    *place = (struct gyre_key_place){0};
    int status = read_auth(&wanted, trouble);
    if (status || !wanted) {
        return status;
    }
    status = look_for_key(place, key, trouble);
    if (status == 0 && derive_key_id(key, place->key_id)) {
        status = gyre_trouble_set(trouble, -EIO, "libcrypto cannot derive the key's name");
    }
    gyre_wipe(key, sizeof key);
    return status == GYRE_AGAIN ? 0 : status;
}

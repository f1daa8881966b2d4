/* The folder of the key and of rank 0's address file: $XDG_CONFIG_HOME/gyre, ~/.config/gyre, or the
 * folder of the key file that the user names. A missing folder is made, for its owner alone.
 *
 * Tested by tests/unit/transport/job/key_test.c. */
#include "transport/job/inside.h"
#include "base/bytes.h"
#include "base/disk/folder.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int gyre_job_config_folder(char *path, size_t room, struct gyre_trouble *trouble)
{
    const char *config = gyre_job_variable("XDG_CONFIG_HOME"), *home = gyre_job_variable("HOME");
    const struct passwd *user = home ? NULL : getpwuid(geteuid());
    int length = -1;
    if (config && config[0] == '/') {
        length = snprintf(path, room, "%s/gyre", config);
    } else if (home || user) {
        length = snprintf(path, room, "%s/.config/gyre", home ? home : user->pw_dir);
    }
    if (length < 0 || (size_t)length >= room) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "no folder for the key: HOME is %s; set HOME or GYRE_KEY_FILE",
                                length < 0 ? "not set" : "too long");
    }
    return 0;
}

int gyre_job_make_folder(const char *path, struct gyre_trouble *trouble)
{
    struct gyre_trouble why = {0};
    if (gyre_folder_make(path, 0700, &why)) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s; the job's key is kept there: set "
                                "GYRE_KEY_FILE to keep it elsewhere",
                                why.text);
    }
    return 0;
}

/* Handles the root folder. The folder of "/key" is "", because the path made of it begins with a
 * slash. */
static int root_folder(char *folder, size_t room, struct gyre_trouble *trouble)
{
    const char *key_file = gyre_job_variable("GYRE_KEY_FILE");
    if (!key_file) {
        int status = gyre_job_config_folder(folder, room, trouble);
        return status ? status : gyre_job_make_folder(folder, trouble);
    }
    const char *slash = strrchr(key_file, '/');
    size_t length = slash ? (size_t)(slash - key_file) : 1;
    if (length >= room) {
        return gyre_trouble_set(trouble, GYRE_INVALID, "GYRE_KEY_FILE is too long: %zu characters",
                                strlen(key_file));
    }
    memcpy(folder, slash ? key_file : ".", length);
    folder[length] = '\0';
    return 0;
}

int gyre_job_root_file(struct gyre_job *job, struct gyre_trouble *trouble)
{
    char folder[sizeof job->root_file - 64], id[2 * sizeof job->id + 1];
    int status = root_folder(folder, sizeof folder, trouble);
    if (status == 0) {
        gyre_hex_write(job->id, sizeof job->id, id);
        snprintf(job->root_file, sizeof job->root_file, "%s/root-%s", folder, id);
    }
    return status ? gyre_trouble_wrap(trouble, "no address of rank 0 is given (GYRE_ROOT) and no "
                                               "file can hold one")
                  : 0;
}

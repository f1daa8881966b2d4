/* A folder for a test's files, and a file in it made of bytes. */
#ifndef GYRE_TESTS_RIG_FILE_ROOM_H
#define GYRE_TESTS_RIG_FILE_ROOM_H

#include "rig/clean_room.h"

#include <dirent.h>
#include <stdint.h>
#include <string.h>

static char file_room[32];
static char file_room_path[256];

static inline int file_room_open(void **state)
{
    (void)state;
    strcpy(file_room, "/tmp/gyre-files-XXXXXX");
    return clean_room_make(file_room);
}

static inline int file_room_close(void **state)
{
    (void)state;
    return clean_room_remove(file_room);
}

static inline const char *file_room_name(const char *name)
{
    snprintf(file_room_path, sizeof file_room_path, "%s/%s", file_room, name);
    return file_room_path;
}

/* Its path, valid until the next; NULL where it cannot be written. */
static inline const char *file_room_make(const char *name, const void *bytes, size_t length)
{
    FILE *file = fopen(file_room_name(name), "wb");
    size_t wrote = file ? fwrite(bytes, 1, length, file) : 0;
    return file && !fclose(file) && wrote == length ? file_room_path : NULL;
}

static inline size_t file_room_read(const char *path, void *bytes, size_t most)
{
    FILE *file = fopen(path, "rb");
    size_t length = file ? fread(bytes, 1, most, file) : 0;
    if (file)
        fclose(file);
    return length;
}

static inline int file_room_count(void)
{
    DIR *folder = opendir(file_room);
    int count = -2; /* "." and ".." */
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

#endif

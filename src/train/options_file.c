/* Options in a file, a line each. Tested by tests/program/train/wrong.c. */
#include "train/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char *trim_blanks(char *text)
{
    size_t length;
    text += strspn(text, " \t\r");
    for (length = strlen(text); length && strchr(" \t\r", text[length - 1]); length--)
        continue;
    text[length] = 0;
    return text;
}

/* A name is read alike with '_' and '-', as on the command line. */
static void use_dashes(char *name)
{
    for (; *name; name++)
        if (*name == '_')
            *name = '-';
}

static int set_line(struct gyre_train_options *options, char *line, struct gyre_trouble *trouble)
{
    line[strcspn(line, "#")] = 0;
    char *equals = strchr(line, '='), *name;
    if (equals)
        *equals = 0;
    name = trim_blanks(line);
    if (!*name && !equals)
        return 0;
    if (equals && strcmp(name, "preset") == 0)
        return gyre_train_option_preset(options, trim_blanks(equals + 1), trouble);
    if (!equals && strpbrk(name, ": \t"))
        return gyre_trouble_set(trouble, GYRE_INVALID, "'%s': a line is `name = value`", name);
    use_dashes(name);
    if (strcmp(name, "ranks") == 0 || strcmp(name, "devices") == 0 ||
        strcmp(name, "backend") == 0 || strcmp(name, "scaling") == 0)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s is no option of the training but a flag: gyre train --%s", name,
                                name);
    return gyre_train_option_set(options, name, equals ? trim_blanks(equals + 1) : NULL, trouble);
}

static int read_whole_file(const char *path, char **text, struct gyre_trouble *trouble)
{
    enum { MOST = 1 << 20 };
    FILE *file = fopen(path, "re");
    size_t length = 0;
    *text = file ? malloc(MOST + 1) : NULL;
    if (*text)
        length = fread(*text, 1, MOST, file);
    int status = !file || ferror(file) ? -errno : !*text ? -ENOMEM : 0;
    if (status)
        gyre_trouble_set(trouble, status, "--config %s: %s", path, strerror(-status));
    else if (length == MOST)
        status = gyre_trouble_set(trouble, GYRE_INVALID, "--config %s: is longer than 1 MiB", path);
    else if (memchr(*text, 0, length))
        status = gyre_trouble_set(trouble, GYRE_INVALID,
                                  "--config %s: holds a zero byte, so it is no text", path);
    else
        (*text)[length] = 0;
    if (file)
        fclose(file);
    return status;
}

int gyre_train_option_text(struct gyre_train_options *options, const char *path, char *text,
                           struct gyre_trouble *trouble)
{
    int status = 0, number = 1;
    for (char *line = text, *next; !status && line; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        status = set_line(options, line, trouble);
    }
    if (status)
        gyre_trouble_wrap(trouble, "%s, line %d", path, number - 1);
    return status;
}

int gyre_train_option_file(struct gyre_train_options *options, const char *path, char **storage,
                           struct gyre_trouble *trouble)
{
    int status = read_whole_file(path, storage, trouble);
    return status ? status : gyre_train_option_text(options, path, *storage, trouble);
}

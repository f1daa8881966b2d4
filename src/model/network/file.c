/* See file.h. A file is looked at as a whole before the first value is taken from it. Tested by
 * tests/unit/model/network/network_test.c. */
#include "model/network/file.h"

#include "base/printable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int items(const struct gyre_replica *r)
{
    return r->parameters + r->buffers;
}

static struct gyre_stored_tensor tensor_of(const struct gyre_ddp_parameter *item)
{
    return (struct gyre_stored_tensor){
        .name = item->name,
        .type = item->type == GYRE_I64 ? GYRE_STORED_I64 : GYRE_STORED_F32,
        .dims = (uint32_t)item->dimensions,
        .shape = item->shape,
        .data = item->value,
    };
}

void gyre_replica_list(const struct gyre_replica *r, struct gyre_stored_tensor *tensor)
{
    for (int i = 0; i < items(r); i++)
        tensor[i] = tensor_of(&r->host_item[i]);
}

int gyre_replica_save(struct gyre_replica *r, const char *path, struct gyre_trouble *trouble)
{
    struct gyre_stored_tensor *tensor = calloc((size_t)items(r), sizeof *tensor);
    if (!tensor)
        return gyre_trouble_set(trouble, -ENOMEM, "%s: no memory to list tensors", path);
    gyre_replica_bind(r);
    gyre_replica_list(r, tensor);
    int status = gyre_replica_values_home(r, trouble);
    if (!status)
        status = gyre_running_bring_home(&r->running, trouble);
    if (!status)
        status = gyre_safetensors_write(path, tensor, (uint64_t)items(r), NULL, 0, trouble);
    free(tensor);
    return status;
}

static int expect_tensor(const struct gyre_safetensors *file, const char *path,
                         const struct gyre_stored_tensor *want, struct gyre_trouble *trouble)
{
    const struct gyre_stored_tensor *found = gyre_safetensors_find(file, want->name);
    if (!found)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: has no '%s', which the network has",
                                path, want->name);
    if (found->type != want->type)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: '%s' is %s, the network's is %s", path,
                                want->name, gyre_stored_type_name(found->type),
                                gyre_stored_type_name(want->type));
    if (found->dims != want->dims)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: '%s' has %u dimensions, the network's has %u", path,
                                want->name, found->dims, want->dims);
    for (uint32_t d = 0; d < want->dims; d++)
        if (found->shape[d] != want->shape[d])
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "%s: dimension %u of '%s' is %llu, the network's is %llu", path,
                                    d, want->name, (unsigned long long)found->shape[d],
                                    (unsigned long long)want->shape[d]);
    return 0;
}

static int expect_no_others(const struct gyre_replica *r, const struct gyre_safetensors *file,
                            const char *path, struct gyre_trouble *trouble)
{
    char shown[GYRE_STORED_SHOWN];
    for (uint64_t t = 0; t < gyre_safetensors_count(file); t++) {
        const char *name = gyre_safetensors_at(file, t)->name;
        int i = 0;
        while (i < items(r) && strcmp(r->host_item[i].name, name) != 0)
            i++;
        if (i == items(r))
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "%s: has '%s', which the network has not", path,
                                    gyre_printable(shown, sizeof shown, name));
    }
    return 0;
}

static int take_file(struct gyre_replica *r, const struct gyre_safetensors *file,
                     struct gyre_trouble *trouble)
{
    gyre_replica_bind(r);
    for (int i = 0; i < items(r); i++) {
        const struct gyre_stored_tensor *found = gyre_safetensors_find(file, r->host_item[i].name);
        memcpy(r->host_item[i].value, found->data, found->bytes);
    }
    gyre_running_written(&r->running);
    return gyre_replica_values_written(r, trouble);
}

int gyre_replica_take(struct gyre_replica *r, const struct gyre_safetensors *file, const char *path,
                      struct gyre_trouble *trouble)
{
    int status = 0;
    for (int i = 0; !status && i < items(r); i++) {
        const struct gyre_stored_tensor want = tensor_of(&r->host_item[i]);
        status = expect_tensor(file, path, &want, trouble);
    }
    if (!status)
        status = expect_no_others(r, file, path, trouble);
    return status ? status : take_file(r, file, trouble);
}

int gyre_replica_load(struct gyre_replica *r, const char *path, struct gyre_trouble *trouble)
{
    struct gyre_safetensors *file;
    int status = gyre_safetensors_open(&file, path, trouble);
    if (status)
        return status;
    status = gyre_replica_take(r, file, path, trouble);
    gyre_safetensors_close(file);
    return status;
}

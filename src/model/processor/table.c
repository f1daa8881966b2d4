/* Processors by their kind. Tested by tests/unit/model/layers/layers_test.c. */
#include "model/processor/inside.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int gyre_processor_open(struct gyre_processor **processor, enum gyre_memory_kind kind, int device,
                        struct gyre_trouble *trouble)
{
    const struct gyre_cuda_wishes wishes = {.index = device, .hires = true};
    return kind == GYRE_MEMORY_HOST ? gyre_host_open(processor, trouble)
                                    : gyre_cuda_open(processor, &wishes, trouble);
}

int gyre_processor_open_beside(struct gyre_processor **processor, enum gyre_memory_kind kind,
                               int device, struct gyre_trouble *trouble)
{
    const struct gyre_cuda_wishes wishes = {.index = device};
    return kind == GYRE_MEMORY_HOST ? gyre_host_open(processor, trouble)
                                    : gyre_cuda_open(processor, &wishes, trouble);
}

int gyre_processor_open_carrier(struct gyre_processor **processor, const struct gyre_processor *to,
                                uint64_t bytes, struct gyre_trouble *trouble)
{
    const struct gyre_cuda_wishes wishes = {.index = gyre_cuda_index(to), .piece_bytes = bytes};
    return gyre_cuda_open(processor, &wishes, trouble);
}

void gyre_processor_close(struct gyre_processor *processor)
{
    if (processor)
        processor->table->close(processor);
}

const char *gyre_processor_hires(void)
{
    bool wanted = false;
    struct gyre_trouble unused = {0};
    return !gyre_cuda_blas_wanted(&wanted, &unused) && wanted &&
                   gyre_cuda_blas_symbol("cublasGemmStridedBatchedEx")
               ? "cuBLAS"
               : NULL;
}

bool gyre_processor_owns(const struct gyre_processor *on, const void *memory)
{
    const enum gyre_memory_kind kind = on->table->memory;
    return kind != GYRE_MEMORY_HOST && memory && gyre_device_of(kind)->classify(memory) == kind;
}

void *gyre_processor_told(struct gyre_processor *on, size_t bytes)
{
    return on->table->alloc_told ? on->table->alloc_told(on, bytes) : NULL;
}

void *gyre_processor_alloc(struct gyre_processor *on, size_t bytes, struct gyre_trouble *trouble,
                           const char *format, ...)
{
    char what[200];
    va_list arguments;
    void *memory = on->table->alloc(on, bytes);
    if (memory)
        return memory;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    gyre_trouble_set(trouble, -ENOMEM, "no memory for %s: %zu bytes%s%s", what, bytes,
                     on->refused.status ? ": " : "", on->refused.text);
    return NULL;
}

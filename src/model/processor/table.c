/* Processors by their kind. Tested by tests/unit/model/layers/layers_test.c. */
#include "model/processor/inside.h"

int gyre_processor_open(struct gyre_processor **processor, enum gyre_memory_kind kind, int device,
                        struct gyre_trouble *trouble)
{
    if (kind == GYRE_MEMORY_HOST)
        return gyre_host_open(processor, trouble);
    return gyre_cuda_open(processor, device, trouble);
}

void gyre_processor_close(struct gyre_processor *processor)
{
    if (processor)
        processor->table->close(processor);
}

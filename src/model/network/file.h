/* A replica's values in a safetensors file, by PyTorch's names. */
#ifndef GYRE_MODEL_NETWORK_FILE_H
#define GYRE_MODEL_NETWORK_FILE_H

#include "data/safetensors/safetensors.h"
#include "model/network/replica.h"

/* The tensors of parameters, then buffers, to tensor[parameters + buffers]. Names, shapes and data
 * are the replica's, where it is bound now. */
void gyre_replica_list(const struct gyre_replica *replica, struct gyre_stored_tensor *tensor);

/* Writes and reads a whole file, as gyre_network_save() and gyre_network_load() promise. */
int gyre_replica_save(struct gyre_replica *replica, const char *path, struct gyre_trouble *trouble);
int gyre_replica_load(struct gyre_replica *replica, const char *path, struct gyre_trouble *trouble);

/* Takes the values of an open file, which messages call `path`. GYRE_INVALID, and nothing is taken,
 * where its tensors are others than the replica's. */
int gyre_replica_take(struct gyre_replica *replica, const struct gyre_safetensors *file,
                      const char *path, struct gyre_trouble *trouble);

#endif

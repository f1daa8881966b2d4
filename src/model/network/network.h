/* What a network of gyre/model.h is made of. */
#ifndef GYRE_MODEL_NETWORK_NETWORK_H
#define GYRE_MODEL_NETWORK_NETWORK_H

#include "model/network/replica.h"

#include <gyre/model.h>

struct gyre_replica *gyre_network_replica(struct gyre_network *network);

#endif

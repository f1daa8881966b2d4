/* What nvcc includes in front of every .cu file; here they ask for it. */
#include "fake_kernel.h"

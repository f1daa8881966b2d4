/* Data sets that have a name: those built in, and MNIST and CIFAR-10, whose files lie in the folder
 * of the process under the names that their publishers gave them. Tested by
 * tests/unit/data/dataset_test.c. */
#include "base/env.h"
#include "data/sources/sources.h"

#include <string.h>
#include <unistd.h>

enum { WINE, WINE_TEST, DIGITS, DIGITS_TEST, MNIST, MNIST_TEST, CIFAR, CIFAR_TEST, NAMES };

static const char *const names[NAMES] = {[WINE] = "wine",     [WINE_TEST] = "wine:test",
                                         [DIGITS] = "digits", [DIGITS_TEST] = "digits:test",
                                         [MNIST] = "mnist",   [MNIST_TEST] = "mnist:test",
                                         [CIFAR] = "cifar10", [CIFAR_TEST] = "cifar10:test"};

static int find_source_name(const char *source)
{
    int i = 0;
    while (i < NAMES && strcmp(names[i], source) != 0)
        i++;
    return i;
}

bool gyre_source_is_named(const char *source)
{
    return find_source_name(source) < NAMES;
}

const char *gyre_source_near_name(const char *source)
{
    return gyre_nearest_word(source, names, NAMES);
}

static int check_fetched(const char *name, const char *path, struct gyre_trouble *trouble)
{
    if (!access(path, F_OK))
        return 0;
    return gyre_trouble_set(trouble, -ENOENT,
                            "%s: %s is not in this folder; \"MNIST and CIFAR-10\" in "
                            "docs/training.md has the commands that fetch it",
                            name, path);
}

/* Packed or unpacked. */
static int open_mnist(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                      bool test, struct gyre_trouble *trouble)
{
    const char *plain = test ? "t10k-images-idx3-ubyte" : "train-images-idx3-ubyte";
    const char *packed = test ? "t10k-images-idx3-ubyte.gz" : "train-images-idx3-ubyte.gz";
    struct gyre_dataset_options images = *options;
    images.source = access(plain, F_OK) ? packed : plain;
    int status = check_fetched(options->source, images.source, trouble);
    return status ? status : gyre_source_images(set, &images, trouble);
}

static int open_cifar(struct gyre_dataset *set, const char *name, bool test,
                      struct gyre_trouble *trouble)
{
    const char *path = test ? "cifar-10-batches-bin/test_batch.bin" : "cifar-10-batches-bin";
    int status = check_fetched(name, path, trouble);
    return status ? status : gyre_source_cifar(set, path, trouble);
}

int gyre_source_named(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                      struct gyre_trouble *trouble)
{
    int name = find_source_name(options->source);
    if (options->targets)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: has classes, not targets",
                                options->source);
    switch (name) {
    case WINE:
    case WINE_TEST:
        return gyre_source_wine(set, name == WINE_TEST, trouble);
    case DIGITS:
    case DIGITS_TEST:
        return gyre_source_digits(set, name == DIGITS_TEST, trouble);
    case MNIST:
    case MNIST_TEST:
        return open_mnist(set, options, name == MNIST_TEST, trouble);
    case CIFAR:
    case CIFAR_TEST:
        return open_cifar(set, options->source, name == CIFAR_TEST, trouble);
    }
    return GYRE_INVALID;
}

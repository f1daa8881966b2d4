/* What parameters start with, against values that were printed by PyTorch and against SHA-256 of
 * whole models, which a model of its generator in Python gave (without fused multiply-adds). */
#include "model/learning/init.h"
#include "rig/test.h"

#include <math.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS_MOST 4
#define FLOATS_MOST 400000

static struct gyre_layer layer[LAYERS_MOST];
static float memory[FLOATS_MOST];

/* Shapes `count` layers and draws all their parameters into `memory`, one behind the other. */
static size_t draw(int count, uint64_t seed)
{
    struct gyre_parameter *list[2 * LAYERS_MOST];
    struct gyre_trouble trouble = {0};
    size_t floats = 0;
    int parameters = 0;
    for (int l = 0; l < count; l++) {
        assert_int_equal(layer[l].kind->shape(&layer[l], 1, &trouble), 0);
        for (int p = 0; p < layer[l].parameter_count; p++) {
            list[parameters++] = &layer[l].parameter[p];
            layer[l].parameter[p].value = memory + floats;
            floats += layer[l].parameter[p].count;
            assert_true(floats <= FLOATS_MOST);
        }
    }
    gyre_init_parameters(list, parameters, seed);
    return floats;
}

static size_t draw_linear(const size_t *widths, int count, uint64_t seed)
{
    for (int l = 0; l + 1 < count; l++)
        layer[l] = (struct gyre_layer){
            .kind = &gyre_layer_linear, .in = {widths[l], 1, 1}, .outputs = widths[l + 1]};
    return draw(count - 1, seed);
}

static void assert_sha256(size_t floats, const char *wanted)
{
    unsigned char hash[32];
    char text[17];
    assert_true(EVP_Digest(memory, floats * sizeof(float), hash, NULL, EVP_sha256(), NULL));
    for (int i = 0; i < 8; i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
    assert_string_equal(text, wanted);
}

/* -- checks ------------------------------------------------------------------------------------ */

/* Printed by torch for Linear(2, 1). */
static void test_printed_values(void **state)
{
    draw_linear((size_t[]){2, 1}, 2, 0);
    assert_true(memory[0] == -0.0052939653396606445f && memory[1] == 0.37932294607162476f);
    draw_linear((size_t[]){2, 1}, 2, 1);
    assert_true(memory[0] == 0.36434608697891235f && memory[1] == -0.3121015429496765f);
    draw_linear((size_t[]){2, 1}, 2, (UINT64_C(7) << 32) + 1); /* the low half matters */
    assert_true(memory[0] == 0.36434608697891235f);
}

static void test_linear_models(void **state)
{
    assert_sha256(draw_linear((size_t[]){10, 1}, 2, 0), "6c0c538109393f08");
    assert_sha256(draw_linear((size_t[]){10, 2}, 2, 0), "9c963972027d443f");
    assert_sha256(draw_linear((size_t[]){784, 500, 10}, 3, 0), "5bb970631cf1e3a6");
    assert_sha256(draw_linear((size_t[]){13, 64, 3}, 3, 0), "6d3f83a44e9755f5");
    assert_true(memory[0] == -0.002076476812362671f && memory[1] == 0.1487826704978943f);
}

static void test_convolutional_model(void **state)
{
    const struct gyre_layer convolution = {
        .kind = &gyre_layer_convolution, .kernel = 5, .stride = 1, .padding = 2};
    layer[0] = layer[1] = convolution;
    layer[0].in = (struct gyre_volume){1, 28, 28};
    layer[0].outputs = 16;
    layer[1].in = (struct gyre_volume){16, 14, 14};
    layer[1].outputs = 32;
    layer[2] = (struct gyre_layer){.kind = &gyre_layer_linear, .in = {1568, 1, 1}, .outputs = 10};
    assert_sha256(draw(3, 0), "70093aed2f6507b9");
}

/* Batch norm between two layers is filled and draws nothing. */
static void test_fills(void **state)
{
    draw_linear((size_t[]){5, 4, 3}, 3, 9);
    float second = memory[5 * 4 + 4];
    layer[2] = layer[1];
    layer[1] = (struct gyre_layer){.kind = &gyre_layer_batch_norm, .in = {4, 1, 1}};
    draw(3, 9);
    for (int i = 0; i < 4; i++)
        assert_true(memory[24 + i] == 1 && memory[28 + i] == 0);
    assert_true(memory[32] == second);
    float mean[4] = {7, 7, 7, 7}, variance[4] = {7, 7, 7, 7};
    int64_t batches = 7;
    void *value[] = {mean, variance, &batches};
    struct gyre_running_buffer *list[3];
    for (int b = 0; b < 3; b++) {
        list[b] = &layer[1].buffer[b];
        list[b]->value = value[b];
    }
    gyre_init_buffers(list, 3);
    assert_true(mean[3] == 0 && variance[3] == 1 && batches == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printed_values),
        cmocka_unit_test(test_linear_models),
        cmocka_unit_test(test_convolutional_model),
        cmocka_unit_test(test_fills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

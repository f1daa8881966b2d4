/* Lists of torch 1.13's DistributedSampler, made once by running it: of each case the length of
 * every rank's list, the first entries of rank 0's, and of every rank the digest (order_digest.h).
 */
#ifndef GYRE_TESTS_UNIT_SAMPLER_SAMPLER_VECTORS_H
#define GYRE_TESTS_UNIT_SAMPLER_SAMPLER_VECTORS_H

#include <stdbool.h>
#include <stdint.h>

#define VECTOR_WORLD_MAX 32
#define VECTOR_FIRST     5

/* clang-format off */
static const struct vector {
    uint64_t n;
    int world;
    uint64_t seed, epoch;
    bool shuffle, drop_last;
    uint64_t length, first[VECTOR_FIRST], digest[VECTOR_WORLD_MAX];
} vectors[] = {
    {10, 2, 0, 0, true, false, 5,
     {4, 7, 3, 0, 6},
     {0xdd22d2c622b17c35, 0xeb4dc9312199d3cb}},
    {10, 2, 0, 1, true, false, 5,
     {5, 1, 0, 9, 7},
     {0x9cbd32974f45b585, 0xf31c1976f5fe5c37}},
    {10, 3, 0, 0, true, false, 4,
     {4, 5, 0, 2},
     {0xbd7354ead40a895f, 0x29a3ce32654443a1, 0x016638ceb4e77210}},
    {10, 4, 0, 0, true, true, 2,
     {4, 3},
     {0x051a156331f33b0d, 0x39f2c83133612766, 0x76108f84396dc2d7, 0x56ac7b43e43de368}},
    {3, 8, 0, 0, false, false, 1,
     {0},
     {0xaf5570f5a1810b7a, 0x7c9fa136d4413fa6, 0xd86e8112f3c4c444, 0xaf5570f5a1810b7a,
      0x7c9fa136d4413fa6, 0xd86e8112f3c4c444, 0xaf5570f5a1810b7a, 0x7c9fa136d4413fa6}},
    {3, 8, 5, 2, true, false, 1,
     {0},
     {0xaf5570f5a1810b7a, 0x7c9fa136d4413fa6, 0xd86e8112f3c4c444, 0xaf5570f5a1810b7a,
      0x7c9fa136d4413fa6, 0xd86e8112f3c4c444, 0xaf5570f5a1810b7a, 0x7c9fa136d4413fa6}},
    {142, 2, 0, 0, true, false, 71,
     {86, 135, 17, 5, 51},
     {0x36dd4db64756513b, 0x3467aa0a3be6886d}},
    {142, 4, 0, 3, true, false, 36,
     {46, 32, 35, 17, 127},
     {0xe460184b014ebcac, 0x6b7dd536a6ef02fd, 0xfcada43aacff370b, 0x1b1b787ffb389498}},
    {142, 8, 1, 0, true, true, 17,
     {3, 21, 64, 103, 109},
     {0xf87a0b5219b01c8d, 0x019332907da6fde9, 0xd742d437d3c0a4ec, 0x83328fbfd5ff3390,
      0x3cfdebda710402ff, 0x4b9a07d7aa0a517e, 0xe23df7912b4ad6ab, 0xccb5c8e952d8fd45}},
    {1000, 6, 0, 0, true, false, 167,
     {44, 719, 756, 802, 272},
     {0x2a5f1613689c4dc3, 0x3e72e5f646e764f9, 0x1e0ffd7636a81469, 0xff8dac34926ebd92,
      0xac3d963915a0803a, 0x18cdf10603cf9dc4}},
    {1, 4, 0, 0, true, false, 1,
     {0},
     {0xaf5570f5a1810b7a, 0xaf5570f5a1810b7a, 0xaf5570f5a1810b7a, 0xaf5570f5a1810b7a}},
    {7, 7, 9, 11, true, true, 1,
     {3},
     {0x35be322d094f9d15, 0xf13ee6ed54ea2aae, 0xf0a0278e4372459c, 0x23d7f42b1cdc1f0d,
      0xd86e8112f3c4c444, 0x7c9fa136d4413fa6, 0xaf5570f5a1810b7a}},
    {60000, 4, 0, 0, true, false, 15000,
     {36044, 21567, 26145, 58716, 4072},
     {0xb348406562b6a265, 0xb61e2c3f5e709ab3, 0xde165f0b119ec27d, 0x9ac7e713853ae668}},
    {60000, 32, 0, 1, true, false, 1875,
     {35845, 46903, 37301, 46455, 27224},
     {0xe3a06b70932a7d6d, 0xb7d3732315dfa43c, 0xa67eb1a64720d4a1, 0x8e9ed61716bc0fd6,
      0xe74ef19df00c4cc4, 0x0ebb0848e71d8a48, 0xfe925ad02113571f, 0x654dd9b293cb78df,
      0x4d8ed4dcc35149fa, 0xf884b9889f9d647c, 0x165036c1f56bcca2, 0x3c56c950b96d5f0d,
      0xfb3de33cfc93d55d, 0xa4ffe5d830d8dc74, 0xe52c499638e9d06e, 0xa00e6c26388a29fa,
      0x00e87b278be3788c, 0xae1fd09e925e0e66, 0x0b34c939f8090d61, 0xa9487625f2bc9a02,
      0x8d2e34aae3bcfb3d, 0x498d8f12ac4384da, 0x2726e77572023924, 0x73f98950e4c531be,
      0x9e147d295d720908, 0x6821c9cc04ccc812, 0xcb12166f2549aaf3, 0x6cee5638cfcd9134,
      0x9a0190c22eb55ee0, 0x96cde4d0640dddb7, 0xa551539b465a5f94, 0xcba0828cbc4116e2}},
    {60001, 7, 1234567, 3, true, false, 8572,
     {13993, 41308, 20591, 10093, 29205},
     {0xbe1c602df0e12ddd, 0x0b31d4af571bf2da, 0x9a5de94d241c7c4b, 0xffee3e5e15596c8c,
      0x28f02a839990d34a, 0x2c762e622a48a32d, 0xb8f92a56dde0bb7c}},
    {100003, 3, 42, 9, true, true, 33334,
     {57287, 3619, 26653, 71521, 49178},
     {0x1696b29b2b3e8fbd, 0x9a7df50ff204f290, 0x091671cd7f8222a0}},
    {1281167, 16, 0, 5, true, false, 80073,
     {265163, 3194, 910537, 207802, 337851},
     {0x9a802d41a0427582, 0xa12f6c74f71faeec, 0x981bc0ec5193368b, 0x2c2dbd2963d8ed12,
      0x6e2b4a0be614b09f, 0x230669b20a434cbd, 0x2254586110f58f3c, 0xaca2bfb78eb6c16c,
      0xbde3659ac8e891f6, 0xec5e1d4e3d021f2c, 0xc04882c097e2a7ef, 0xd73fb283072247cc,
      0xc95a1716ec622dd3, 0x26108026db0bfda2, 0x821075ecd7fbd40e, 0xebac4c1d644a451c}},
};
/* clang-format on */

#endif

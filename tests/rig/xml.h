/* What a reader of XML asks of a drawing. */
#ifndef GYRE_TESTS_RIG_XML_H
#define GYRE_TESTS_RIG_XML_H

#include "rig/test.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static inline const char *xml_check_attribute(const char *at)
{
    const char *name = at;
    while (isalnum((unsigned char)*at) || *at == '-')
        at++;
    assert_true(at > name);
    assert_memory_equal(at, "=\"", 2);
    at += 2;
    at += strcspn(at, "\"<");
    assert_int_equal(*at, '"');
    return at + 1;
}

static inline const char *xml_check_text(const char *at)
{
    for (; *at && *at != '<'; at++) {
        int used = 0;
        unsigned code;
        assert_true((unsigned char)*at >= 0x20 || *at == '\n');
        assert_int_not_equal(*at, '>');
        if (*at == '&')
            assert_true(sscanf(at, "&#%u;%n", &code, &used) == 1 && used > 0);
    }
    return at;
}

/* Tags nest and close, attributes are quoted, nothing is bare. Returns the number of elements. */
static inline int xml_check(const char *at)
{
    char open[8][16];
    int depth = 0, elements = 0;
    do {
        char name[16] = "";
        bool closing = at[1] == '/';
        assert_int_equal(*at, '<');
        at += 1 + closing;
        assert_int_equal(sscanf(at, "%15[a-z]", name), 1);
        at += strlen(name);
        while (*at == ' ')
            at = xml_check_attribute(at + 1);
        if (closing)
            assert_string_equal(open[--depth], name);
        else if (*at != '/')
            strcpy(open[depth++], name);
        assert_in_range(depth, 0, 7);
        at += *at == '/';
        assert_int_equal(*at, '>');
        elements += !closing;
        at = xml_check_text(at + 1);
    } while (depth > 0);
    assert_string_equal(at, "");
    return elements;
}

#endif

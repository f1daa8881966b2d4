/* gyre inspect FILE --json: one object, one tensor a line. Numbers have as many digits as tell them
 * from the next one; where a tensor has no finite number, min, max and mean are null. Tested by
 * tests/program/cli/inspect.c. */
#include "cli/inspect/inside.h"

static void put_json_key(struct gyre_json_out *out, const char *before, const char *key)
{
    gyre_json_put_text(out, before);
    gyre_json_put_string(out, key);
    gyre_json_put_text(out, ":");
}

static void put_values(struct gyre_json_out *out, const struct gyre_stored_tensor *tensor)
{
    struct gyre_inspect_values values;
    gyre_inspect_values_of(tensor, true, &values);
    const char *const keys[] = {"min", "max", "mean"}, *const texts[] = {values.min, values.max,
                                                                         values.mean};
    for (int i = 0; i < 3; i++) {
        put_json_key(out, ",", keys[i]);
        gyre_json_put_text(out, *texts[i] ? texts[i] : "null");
    }
    if (!values.floats)
        return;
    put_json_key(out, ",", "nan");
    gyre_json_put_whole(out, values.nan);
    put_json_key(out, ",", "inf");
    gyre_json_put_whole(out, values.inf);
}

static void put_tensor(struct gyre_json_out *out, const struct gyre_stored_tensor *tensor,
                       bool values)
{
    put_json_key(out, "{", "name");
    gyre_json_put_string(out, tensor->name);
    put_json_key(out, ",", "type");
    gyre_json_put_string(out, gyre_stored_type_name(tensor->type));
    put_json_key(out, ",", "shape");
    for (uint32_t i = 0; i < tensor->dims; i++) {
        gyre_json_put_text(out, i ? "," : "[");
        gyre_json_put_whole(out, tensor->shape[i]);
    }
    gyre_json_put_text(out, tensor->dims ? "]" : "[]");
    put_json_key(out, ",", "bytes");
    gyre_json_put_whole(out, tensor->bytes);
    if (values)
        put_values(out, tensor);
    gyre_json_put_text(out, "}");
}

void gyre_inspect_print_json(const struct gyre_safetensors *file, const char *path, bool values)
{
    struct gyre_json_out out = {.stream = stdout};
    put_json_key(&out, "{", "file");
    gyre_json_put_string(&out, path);
    put_json_key(&out, ",\n ", "metadata");
    gyre_json_put_text(&out, "{");
    for (uint64_t i = 0; i < gyre_safetensors_texts(file); i++) {
        const struct gyre_stored_text *text = gyre_safetensors_text_at(file, i);
        put_json_key(&out, i ? "," : "", text->key);
        gyre_json_put_string(&out, text->value);
    }
    put_json_key(&out, "},\n ", "tensors");
    gyre_json_put_text(&out, "[");
    for (uint64_t i = 0; i < gyre_safetensors_count(file); i++) {
        gyre_json_put_text(&out, i ? ",\n  " : "\n  ");
        put_tensor(&out, gyre_safetensors_at(file, i), values);
    }
    gyre_json_put_text(&out, "]}\n");
}

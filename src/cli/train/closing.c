/* The last lines of a training, as in
 *
 *     done: 100 epochs, 300 steps, 2.1 s; best test accuracy 100.00 % in epoch 37; saved in run1
 *     go on:    gyre train --ranks 2 --preset wine --save run1 --resume --epochs 200
 *
 * A command is what was typed, with what has to change, so that it can be typed again. Tested by
 * tests/program/train/closing.c. */
#include "cli/train/closing.h"

#include "report/text.h"

#include <stdlib.h>
#include <string.h>

/* -- the command ------------------------------------------------------------------------------- */

/* One word as a shell reads it. */
static void put_word(FILE *to, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./:,=+@%";
    fputc(' ', to);
    if (*word && word[strspn(word, plain)] == 0) {
        fputs(word, to);
        return;
    }
    fputc('\'', to);
    for (; *word; word++)
        fputs(*word == '\'' ? "'\\''" : (const char[]){*word, 0}, to);
    fputc('\'', to);
}

/* Is it --NAME, or --NAME=VALUE? */
static bool is_flag(const char *word, const char *name)
{
    size_t length = strlen(name);
    return strncmp(word, "--", 2) == 0 && strncmp(word + 2, name, length) == 0 &&
           (!word[2 + length] || word[2 + length] == '=');
}

static void put_tool(FILE *to, const char *what, const struct gyre_cli_command *command)
{
    fprintf(to, "%-9s%s", what, command->launched ? " …" : "");
    put_word(to, command->tool);
    fputs(" train", to);
}

static void put_file(FILE *to, const char *flag, const char *file)
{
    if (file) {
        fprintf(to, " --%s", flag);
        put_word(to, file);
    }
}

/* On the test set where there is one, else on both parts of what was cut. */
static void put_evaluation(FILE *to, const struct gyre_cli_command *command,
                           const struct gyre_train_options *o)
{
    put_tool(to, "evaluate:", command);
    fputs(" --evaluate", to);
    put_file(to, "init", o->save);
    put_file(to, "data", o->test ? o->test : o->data);
    put_file(to, "labels", o->test ? o->test_labels : o->labels);
    if (!o->test && o->validation > 0)
        fprintf(to, " --validation %.9g", o->validation);
    if (!o->test && o->validation > 0 && o->seed)
        fprintf(to, " --seed %lld", (long long)o->seed);
    fputc('\n', to);
}

static void put_prediction(FILE *to, const struct gyre_cli_command *command,
                           const struct gyre_train_options *o)
{
    fprintf(to, "%-9s", "predict:");
    put_word(to, command->tool);
    fputs(" predict", to);
    put_file(to, "init", o->init ? o->init : o->save);
    put_file(to, "data", o->data);
    put_file(to, "labels", o->labels);
    fputs(" --out predictions.csv\n", to);
}

/* The command of now, resumed, with another value of a flag; NULL: as it is. */
static void put_resumed(FILE *to, const struct gyre_cli_command *command, const char *flag,
                        uint64_t value)
{
    put_tool(to, "go on:", command);
    if (command->ranks)
        fprintf(to, " --ranks %d", command->ranks);
    for (char **word = command->words; *word; word++) {
        if (is_flag(*word, "resume"))
            continue;
        if (!flag || !is_flag(*word, flag))
            put_word(to, *word);
        else if (!strchr(*word, '=') && word[1])
            word++;
    }
    fputs(" --resume", to);
    if (flag)
        fprintf(to, " --%s %llu", flag, (unsigned long long)value);
    fputc('\n', to);
}

/* -- what it came to --------------------------------------------------------------------------- */

static void add_best(struct gyre_report_text *line, const struct gyre_train_best *best)
{
    static const char *const of[] = {[GYRE_TRAIN_BY_TRAINING] = "",
                                     [GYRE_TRAIN_BY_TEST] = "test ",
                                     [GYRE_TRAIN_BY_VALIDATION] = "validation "};
    if (!best->epoch)
        return;
    if (best->accuracy >= 0) {
        gyre_report_add(line, "; best %saccuracy %.2f %%", of[best->judge], 100 * best->accuracy);
    } else {
        gyre_report_add(line, "; least %sloss ", of[best->judge]);
        gyre_report_add_real(line, best->loss);
    }
    gyre_report_add(line, " in epoch %lld", (long long)best->epoch);
}

static void put_done(FILE *to, const struct gyre_train_options *options,
                     const struct gyre_train_outcome *outcome)
{
    struct gyre_report_text line = {0};
    unsigned long long epochs = outcome->epochs, steps = outcome->steps;
    gyre_report_add(&line, "done: %llu epoch%s, %llu step%s, ", epochs, epochs == 1 ? "" : "s",
                    steps, steps == 1 ? "" : "s");
    if (outcome->seconds < 60)
        gyre_report_add(&line, "%.1f s", outcome->seconds);
    else
        gyre_report_add_duration(&line, outcome->seconds);
    add_best(&line, &outcome->best);
    if (options->save)
        gyre_report_add(&line, "; saved in %s%s", options->save,
                        options->keep ? "" : ", the best epoch beside the newest");
    else
        gyre_report_add(&line, "; not saved: --save DIR keeps the weights");
    fprintf(to, "%s\n", line.bytes);
}

/* Twice as far. */
static void put_further(FILE *to, const struct gyre_cli_command *command,
                        const struct gyre_train_options *options,
                        const struct gyre_train_outcome *outcome)
{
    if (outcome->impatient)
        put_resumed(to, command, "patience", 2 * (uint64_t)options->patience);
    else
        put_resumed(to, command, "epochs", 2 * outcome->epochs);
}

static void put_impatience(FILE *to, const struct gyre_train_options *options,
                           const struct gyre_train_outcome *outcome)
{
    fprintf(to,
            "stopped after epoch %llu of %lld: no epoch was better than epoch %lld, and --patience "
            "is %lld\n",
            (unsigned long long)outcome->epochs, (long long)options->epochs,
            (long long)outcome->best.epoch, (long long)options->patience);
}

static void put_nothing_to_do(FILE *to, const struct gyre_train_options *options,
                              const struct gyre_train_outcome *outcome)
{
    fprintf(to, "nothing to do: %s has epoch %llu of %lld already", options->save,
            (unsigned long long)outcome->epochs, (long long)options->epochs);
    if (outcome->impatient)
        fprintf(to, ", none was better than epoch %lld, and --patience is %lld",
                (long long)outcome->best.epoch, (long long)options->patience);
    fputc('\n', to);
}

static void put_outcome(FILE *to, const struct gyre_cli_command *command,
                        const struct gyre_train_options *options,
                        const struct gyre_train_outcome *outcome)
{
    if (outcome->impatient)
        put_impatience(to, options, outcome);
    if (options->quiet)
        return;
    put_done(to, options, outcome);
    if (!options->save)
        return;
    put_evaluation(to, command, options);
    put_further(to, command, options, outcome);
}

void gyre_cli_train_close(FILE *to, const struct gyre_cli_command *command,
                          const struct gyre_train_options *options,
                          const struct gyre_train_outcome *outcome)
{
    unsigned long long step = outcome->steps;
    if (options->evaluate && !outcome->stopped)
        put_prediction(to, command, options);
    if (options->evaluate)
        return;
    if (!step && options->save) {
        fprintf(to, "no step was made, so nothing is saved in %s\n", options->save);
    } else if (!step && !options->epochs) {
        fprintf(to,
                "nothing to do: --epochs is 0; --evaluate says what weights make of the data\n");
    } else if (outcome->stopped) {
        fprintf(to, "stopped by a signal after step %llu%s%s\n", step,
                options->save ? "; saved in " : "; nothing is saved",
                options->save ? options->save : "");
        if (options->save)
            put_resumed(to, command, NULL, 0);
    } else if (outcome->resumed && outcome->resumed == step) {
        put_nothing_to_do(to, options, outcome);
        put_further(to, command, options, outcome);
    } else {
        put_outcome(to, command, options, outcome);
    }
}

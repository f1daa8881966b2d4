/* The picture: busbw over size, both logarithmic, one panel for each section, operation and number
 * of ranks, one line for each peer.
 *
 *     GB/s                       plain SVG, nothing from elsewhere: the viewer's own sans-serif
 *      10 ┤      ╭──●            letters, and two sets of colours of which the viewer takes the one
 *       1 ┤  ╭─●─╯   ■           that suits a light or a dark page. Every peer has a mark of its
 *     0.1 ┤●─╯  ■                own too, for those who see colours differently.
 *         └┬────┬────┬ size */
#include "plot.h"

#include <math.h>
#include <string.h>

#define PANEL_WIDTH  440
#define PANEL_HEIGHT 290
#define LEFT         64 /* of a panel: where its axes are */
#define RIGHT        28
#define TOP          34
#define BOTTOM       34
#define LEGEND       44
#define STYLES       6
#define TUNED        " tuned" /* ends the name of a peer at its best settings */

struct plot_panel {
    FILE *file;
    const struct results *results;
    const struct group *group;
    double x, y;          /* of its upper left corner */
    double x_low, x_high; /* log2 of sizes */
    double y_low, y_high; /* log10 of GB/s */
};

static const char style[] =
    "<style>\n"
    "  .page { fill: #ffffff }  text { fill: #1f2328; font: 12px system-ui, sans-serif }\n"
    "  .title { font-weight: 600 }  .faint { fill: #59636e }\n"
    "  .grid { stroke: #d1d9e0; stroke-width: 1 }\n"
    "  .line { fill: none; stroke-width: 1.6; stroke-linejoin: round }  .bold { stroke-width: 2.8 "
    "}\n"
    "  .s0 { stroke: #0969da } .m0 { fill: #0969da }  .s1 { stroke: #bc4c00 } .m1 { fill: #bc4c00 "
    "}\n"
    "  .s2 { stroke: #8250df } .m2 { fill: #8250df }  .s3 { stroke: #1a7f37 } .m3 { fill: #1a7f37 "
    "}\n"
    "  .s4 { stroke: #0550ae; stroke-dasharray: 6 4 } .m4 { fill: #0550ae }\n"
    "  .s5 { stroke: #6e7781; stroke-dasharray: 2 4 } .m5 { fill: #6e7781 }\n"
    "  .tuned { stroke-dasharray: 2 3 }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    .page { fill: #0d1117 }  text { fill: #f0f6fc }  .faint { fill: #9198a1 }\n"
    "    .grid { stroke: #3d444d }\n"
    "    .s0 { stroke: #58a6ff } .m0 { fill: #58a6ff }  .s1 { stroke: #f0883e } .m1 { fill: "
    "#f0883e }\n"
    "    .s2 { stroke: #bc8cff } .m2 { fill: #bc8cff }  .s3 { stroke: #3fb950 } .m3 { fill: "
    "#3fb950 }\n"
    "    .s4 { stroke: #79c0ff } .m4 { fill: #79c0ff }  .s5 { stroke: #9198a1 } .m5 { fill: "
    "#9198a1 }\n"
    "  }\n"
    "</style>\n";

static bool is_tuned(const char *name)
{
    size_t length = strlen(name), tail = sizeof TUNED - 1;
    return length > tail && strcmp(name + length - tail, TUNED) == 0;
}

/* A name keeps its colour in every picture, and shares it with the same library tuned. */
static int style_of(const char *name)
{
    static const char *const names[STYLES] = {"Gyre", "Open MPI",    "MPICH",
                                              "gloo", "Gyre malloc", "Gyre reproducible"};
    size_t length = strlen(name) - (is_tuned(name) ? sizeof TUNED - 1 : 0);
    for (int i = 0; i < STYLES; i++) {
        if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0) {
            return i;
        }
    }
    return STYLES - 1;
}

static const char *kind_of(const char *name)
{
    return is_tuned(name) ? " tuned" : style_of(name) == 0 ? " bold" : "";
}

/* -- marks ------------------------------------------------------------------------------------- */

static void draw_mark(FILE *file, int mark, double x, double y)
{
    switch (mark % 4) {
    case 0:
        fprintf(file, "<circle class=\"m%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.4\"/>\n", mark, x, y);
        break;
    case 1:
        fprintf(file, "<rect class=\"m%d\" x=\"%.1f\" y=\"%.1f\" width=\"6\" height=\"6\"/>\n",
                mark, x - 3, y - 3);
        break;
    case 2:
        fprintf(file, "<path class=\"m%d\" d=\"M%.1f %.1fl4 7h-8z\"/>\n", mark, x, y - 4.4);
        break;
    default:
        fprintf(file, "<path class=\"m%d\" d=\"M%.1f %.1fl4 4l-4 4l-4 -4z\"/>\n", mark, x, y - 4);
        break;
    }
}

static void draw_legend(FILE *file, const struct names *peers)
{
    double x = LEFT;
    for (int i = 0; i < peers->count; i++) {
        int mark = style_of(peers->name[i]);
        fprintf(file, "<path class=\"line s%d%s\" d=\"M%.1f 22h26\"/>\n", mark,
                kind_of(peers->name[i]), x);
        draw_mark(file, mark, x + 13, 22);
        fprintf(file, "<text x=\"%.1f\" y=\"26\">%s</text>\n", x + 33, peers->name[i]);
        x += 52 + 7.2 * (double)strlen(peers->name[i]);
    }
}

/* -- a panel ----------------------------------------------------------------------------------- */

static double at_x(const struct plot_panel *panel, double size)
{
    double share = (log2(size) - panel->x_low) / (panel->x_high - panel->x_low);
    return panel->x + LEFT + share * (PANEL_WIDTH - LEFT - RIGHT);
}

static double at_y(const struct plot_panel *panel, double rate)
{
    double share = (log10(rate) - panel->y_low) / (panel->y_high - panel->y_low);
    return panel->y + PANEL_HEIGHT - BOTTOM - share * (PANEL_HEIGHT - TOP - BOTTOM);
}

/* GB/s, of the first half that was measured; 0 if none was. */
static double rate_of(const struct plot_panel *panel, int peer, uint64_t bytes)
{
    const struct group *group = panel->group;
    double factor = op_bus_factor(panel->results->ops.name[group->op], group->ranks);
    double time = results_median(panel->results, group, peer, bytes, false, FIELD_TIME);
    return time > 0 ? factor * (double)bytes / time * 1e-3 : 0;
}

static void find_range(struct plot_panel *panel)
{
    const struct group *group = panel->group;
    double low = INFINITY, high = 0;
    panel->x_low = INFINITY;
    panel->x_high = 0;
    for (int i = 0; i < group->sizes; i++) {
        panel->x_low = fmin(panel->x_low, log2((double)group->size[i]));
        panel->x_high = fmax(panel->x_high, log2((double)group->size[i]));
        for (int peer = 0; peer < group->peers; peer++) {
            double rate = rate_of(panel, group->peer[peer], group->size[i]);
            low = rate > 0 ? fmin(low, rate) : low;
            high = fmax(high, rate);
        }
    }
    panel->x_low -= panel->x_low == panel->x_high;
    panel->y_low = floor(log10(fmin(low, 1)));
    panel->y_high = ceil(log10(fmax(high, 1.001)));
}

static void draw_axes(const struct plot_panel *panel)
{
    char text[16];
    FILE *file = panel->file;
    double left = panel->x + LEFT, right = panel->x + PANEL_WIDTH - RIGHT;
    for (double power = panel->y_low; power <= panel->y_high; power++) {
        double y = at_y(panel, pow(10, power));
        fprintf(file,
                "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n<text class=\"faint\" "
                "text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">%.*f</text>\n",
                left, y, right, left - 7, y + 4, power < 0 ? (int)-power : 0, pow(10, power));
    }
    int step = panel->x_high - panel->x_low > 12 ? 5 : 2;
    for (double power = ceil(panel->x_low); power <= panel->x_high; power += step) {
        double x = at_x(panel, exp2(power));
        write_size((uint64_t)exp2(power), text);
        fprintf(file,
                "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n<text class=\"faint\" "
                "text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                x, panel->y + TOP, panel->y + PANEL_HEIGHT - BOTTOM, x,
                panel->y + PANEL_HEIGHT - BOTTOM + 18, text);
    }
}

static void draw_peer(const struct plot_panel *panel, int peer)
{
    FILE *file = panel->file;
    const struct group *group = panel->group;
    int mark = style_of(panel->results->peers.name[peer]);
    bool drawn = false;
    fprintf(file, "<path class=\"line s%d%s\" d=\"", mark,
            kind_of(panel->results->peers.name[peer]));
    for (int i = 0; i < group->sizes; i++) {
        double rate = rate_of(panel, peer, group->size[i]);
        if (rate > 0) {
            fprintf(file, "%s%.1f %.1f", drawn ? "L" : "M", at_x(panel, (double)group->size[i]),
                    at_y(panel, rate));
            drawn = true;
        }
    }
    fprintf(file, "\"/>\n");
    for (int i = 0; i < group->sizes; i++) {
        double rate = rate_of(panel, peer, group->size[i]);
        if (rate > 0) {
            draw_mark(file, mark, at_x(panel, (double)group->size[i]), at_y(panel, rate));
        }
    }
}

static void draw_panel(struct plot_panel *panel)
{
    const struct results *results = panel->results;
    bool shm = strcmp(results->sections.name[panel->group->section], "shm") == 0;
    find_range(panel);
    fprintf(
        panel->file,
        "<text class=\"title\" x=\"%.1f\" y=\"%.1f\">%s, %s, %d ranks</text>\n"
        "<text class=\"faint\" text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">GB/s of busbw</text>\n",
        panel->x + LEFT, panel->y + 20, results->ops.name[panel->group->op],
        shm ? "shared memory" : "TCP on loopback", panel->group->ranks,
        panel->x + PANEL_WIDTH - RIGHT, panel->y + 20);
    draw_axes(panel);
    for (int i = panel->group->peers - 1; i >= 0; i--) { /* ours on top */
        draw_peer(panel, panel->group->peer[i]);
    }
}

/* A barrier has no size to plot over. */
static bool has_sizes(const struct group *group)
{
    return group->size[0] > 0;
}

void plot(const struct results *results, FILE *file)
{
    struct group group;
    int panels = 0;
    for (int i = 0; results_group(results, i, &group); i++) {
        panels += has_sizes(&group);
    }
    int columns = panels > 1 ? 2 : 1, rows = (panels + columns - 1) / columns;
    int width = columns * PANEL_WIDTH, height = LEGEND + rows * PANEL_HEIGHT;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" role=\"img\">\n<title>Bus bandwidth over size, by library</title>\n"
            "%s<rect class=\"page\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n",
            width, height, width, height, style, width, height);
    draw_legend(file, &results->peers);
    panels = 0;
    for (int i = 0; results_group(results, i, &group); i++) {
        struct plot_panel panel = {.file = file,
                                   .results = results,
                                   .group = &group,
                                   .x = panels % columns * PANEL_WIDTH,
                                   .y = LEGEND + (double)(panels / columns) * PANEL_HEIGHT};
        if (has_sizes(&group)) {
            draw_panel(&panel);
            panels++;
        }
    }
    fprintf(file, "</svg>\n");
}

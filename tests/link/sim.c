/* The conformance suite over the simulator: a world of a hub and its leaves. */
#include "link/suite.h"

#include "transport/link/sim/world.h"

static int connect_one(struct gyre_link_net *net, uint32_t rank, uint32_t peer,
                       struct gyre_pipe **pipe, struct gyre_trouble *trouble)
{
    struct gyre_channel channel = {.peer = peer};
    return gyre_driver_sim.attach(net->wire[rank], &channel, pipe, trouble);
}

static int connect_net(const struct gyre_link_wish *wish, struct gyre_link_net *net,
                       struct gyre_trouble *trouble)
{
    struct gyre_sim_world *world;
    uint32_t n = 1 + (uint32_t)wish->leaves;
    struct gyre_sim_options options = {.seed = 7,
                                       .n = n,
                                       .posts = GYRE_PIPE_POSTS,
                                       .link = {.latency_ns = 5000,
                                                .jitter_ns = 3000,
                                                .bytes_per_second = 10000000000,
                                                .piece_bytes = wish->split ? 1 : 0}};
    int status = gyre_sim_world_create(&options, &world);
    net->own = status ? NULL : world;
    for (uint32_t rank = 0; !status && rank < n; rank++) {
        struct gyre_wire_options wire = {
            .rank = rank, .n = n, .epoch = 3, .peers = n, .world = world};
        status = gyre_driver_sim.open(&wire, &net->wire[rank], trouble);
    }
    for (uint32_t leaf = 0; !status && leaf + 1 < n; leaf++) {
        status = connect_one(net, 0, leaf + 1, &net->outward[leaf], trouble);
        status = status ? status : connect_one(net, leaf + 1, 0, &net->inward[leaf], trouble);
    }
    if (!status && wish->flip_at >= 0) {
        gyre_sim_world_corrupt(world, 0, 1, (uint64_t)wish->flip_at);
    }
    return status;
}

static void disconnect_net(struct gyre_link_net *net)
{
    gyre_sim_world_destroy(net->own);
}

static void kill_leaf(struct gyre_link_net *net)
{
    gyre_sim_world_kill(net->own, 1);
}

static void let_time_pass(struct gyre_link_net *net)
{
    gyre_sim_world_step(net->own);
}

static uint64_t virtual_now(const struct gyre_link_net *net)
{
    return gyre_sim_world_now(net->own);
}

static const struct gyre_link_bench bench = {.driver = &gyre_driver_sim,
                                             .splits = true,
                                             .flips = true,
                                             .connect = connect_net,
                                             .disconnect = disconnect_net,
                                             .kill = kill_leaf,
                                             .idle = let_time_pass,
                                             .now = virtual_now};

int main(void)
{
    return gyre_link_suite("sim", &bench);
}

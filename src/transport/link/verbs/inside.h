/* Inside the verbs driver: what its files share.
 *
 *        verbs.c            the driver's entries; whose turn it is
 *           │
 *        pipe.c       one pipe: its stream's bytes through two rings
 *        slot.c       short messages, seen in memory
 *        head.c       headers that need not travel
 *        remote_write.c      long messages, from where they lie to where they belong
 *        memory.c     where that may be
 *        meet.c       two ends find out over their socket whether they reach each other
 *        offer.c      what they tell each other there
 *        queue.c      queue pairs, requests, completions
 *        fault.c      what a broken pipe tells
 *        timeouts.c   what comes to nothing without a word
 *        tcp_fallback.c     how it goes on over its socket, where that was asked for
 *        device.c     the wire's devices, staging
 *        card.c       one device, its limits
 *        port.c       which device, port and GID
 *        rail.c       which of several that are as good */
#ifndef GYRE_TRANSPORT_LINK_VERBS_INSIDE_H
#define GYRE_TRANSPORT_LINK_VERBS_INSIDE_H

#include "transport/link/verbs/state.h"

/* -- port.c, rail.c, card.c, device.c ---------------------------------- */

/* How many devices this rank is to use. choose(): opens the one of this number, with its port.
 * GYRE_UNSUPPORTED: there is none; else why it is of no use. */
uint32_t gyre_verbs_port_count(const struct gyre_wire_options *options);
int gyre_verbs_port_choose(const struct gyre_wire_options *options, uint32_t number,
                           struct ibv_context **context, struct gyre_verbs_port *port,
                           struct gyre_trouble *trouble);
int gyre_verbs_rail_pick(const struct gyre_verbs_rail *rail, int count, int best, int local_rank,
                         int local_size); /* its index */
void gyre_verbs_gid_name(const uint8_t gid[16], char name[GYRE_VERBS_NAME_MAX]);

/* The first card decides on the window; another that is of no use has been closed, and `why` says
 * why. */
int gyre_verbs_card_open(struct gyre_verbs_wire *wire, uint32_t number,
                         const struct gyre_wire_options *options, struct gyre_trouble *trouble);
void gyre_verbs_card_close(struct gyre_verbs_card *card);

/* Everything that a wire has once. close() takes every half-built state. */
int gyre_verbs_device_open(struct gyre_verbs_wire *wire, const struct gyre_wire_options *options,
                           struct gyre_trouble *trouble);
void gyre_verbs_device_close(struct gyre_verbs_wire *wire);
void gyre_verbs_device_place(struct gyre_verbs_pipe *pipe); /* its part of staging */

/* Posted on a pipe's first queue pair, and on each other one. */
uint32_t gyre_verbs_receives(const struct gyre_verbs_wire *wire, bool first);
const char *gyre_verbs_memory_hint(char text[160]); /* the limit, and how it is raised */

/* -- queue.c ----------------------------------------------------------------------------- */

int gyre_verbs_queue_create(struct gyre_verbs_queue *queue, struct gyre_trouble *trouble);
void gyre_verbs_queue_destroy(struct gyre_verbs_queue *queue); /* nothing is touched any more */
void gyre_verbs_queue_destroy_all(struct gyre_verbs_pipe *pipe);
void gyre_verbs_queue_stop_all(struct gyre_verbs_pipe *pipe); /* they go to their error state */

/* To the peer that `theirs` describes; receives are posted. */
int gyre_verbs_queue_connect(struct gyre_verbs_queue *queue, struct gyre_trouble *trouble);

/* put(): the caller has looked at room(). flush(): the device gets what was put, and what is written
 * from is left as it is until then too. */
uint32_t gyre_verbs_queue_room(const struct gyre_verbs_queue *queue);
void gyre_verbs_queue_put(struct gyre_verbs_queue *queue, const struct gyre_verbs_request *request);
void gyre_verbs_queue_flush(struct gyre_verbs_queue *queue);

/* Takes what completed and hands it to its pipe; false: nothing had. */
bool gyre_verbs_queue_drain(struct gyre_verbs_wire *wire);

/* -- fault.c ----------------------------------------------------------------------------- */

/* break(): the queue pair is of no use any more; the pipe goes on by TCP, or fails. refuse(): one
 * that is not proven has failed. story(): which link it was, and what has happened; circumstances():
 * that, the port's state, and how often the device tries. */
void gyre_verbs_break(struct gyre_verbs_queue *queue, int status, const char *what);
void gyre_verbs_fail(struct gyre_verbs_queue *queue, int status, const char *what);
void gyre_verbs_refuse(struct gyre_verbs_queue *queue, const char *what);
const char *gyre_verbs_story(const struct gyre_verbs_queue *queue, const char *what,
                             char text[GYRE_VERBS_STORY]);
const char *gyre_verbs_circumstances(const struct gyre_verbs_queue *queue, const char *what,
                                     char text[GYRE_VERBS_STORY]);
void gyre_verbs_fail_stream(struct gyre_verbs_pipe *pipe, int status);
void gyre_verbs_fail_request(struct gyre_verbs_queue *queue, const struct ibv_wc *done);

/* Hears what is no completion: sockets and the device's events. end_hangups(), when all completions
 * have been read, decides what the end of a socket means. */
void gyre_verbs_look_aside(struct gyre_verbs_wire *wire);
void gyre_verbs_end_hangups(struct gyre_verbs_wire *wire, uint64_t now);

/* -- timeouts.c -------------------------------------------------------------------------- */

/* port_state(): of this rank's port, in words too; 0: it is up. break_all(): whatever is on that
 * card. */
int gyre_verbs_port_state(const struct gyre_verbs_card *card, const char **words);
void gyre_verbs_break_all(struct gyre_verbs_wire *wire, const struct gyre_verbs_card *card,
                          int status, const char *what);
void gyre_verbs_check_timeouts(struct gyre_verbs_wire *wire, uint64_t now);

/* -- tcp_fallback.c ---------------------------------------------------------------------------- */

/* serve(): all pipes of the wire that go by TCP, or are about to; true: something moved, or must
 * not be slept over. `now` 0: not known. */
bool gyre_verbs_fallback_serve(struct gyre_verbs_wire *wire, uint64_t now);
bool gyre_verbs_fallback_push(struct gyre_verbs_pipe *pipe);       /* true: something moved */
bool gyre_verbs_fallback_done(const struct gyre_verbs_pipe *pipe); /* the socket has all there is */

/* -- pipe.c ------------------------------------------------------------------------------ */

void gyre_verbs_pipe_mark(struct gyre_verbs_pipe *pipe); /* it has something to do */
bool gyre_verbs_pipe_push(struct gyre_verbs_pipe *pipe); /* true: something moved */
bool gyre_verbs_pipe_send_now(struct gyre_verbs_pipe *pipe, const struct gyre_match *match,
                              const void *data, uint64_t length,
                              uint64_t token); /* false: it cannot */
void gyre_verbs_pipe_take(struct gyre_verbs_pipe *pipe, const uint8_t *record, uint32_t length);
bool gyre_verbs_pipe_parted(const struct gyre_verbs_pipe *pipe); /* goodbyes from both sides */
void gyre_verbs_pipe_came(struct gyre_verbs_queue *queue, uint32_t immediate);
uint32_t gyre_verbs_pipe_immediate(struct gyre_verbs_pipe *pipe, enum gyre_verbs_kind kind,
                                   uint32_t length);

/* -- slot.c ------------------------------------------------------------------------------ */

/* fits(): a record of this length may go to a slot. put(): it does; behind the frame is room for
 * the slot's trailer. read(): the record of this number, and its length; 0: it is not there yet.
 * look(): takes the records that are due and there; false: none is. */
bool gyre_verbs_slot_fits(const struct gyre_verbs_pipe *pipe, uint32_t length);
void gyre_verbs_slot_put(struct gyre_verbs_pipe *pipe, uint32_t number, uint8_t *frame,
                         uint32_t length);
uint32_t gyre_verbs_slot_read(const struct gyre_verbs_pipe *pipe, uint32_t number,
                              uint8_t frame[GYRE_VERBS_SLOT]);
bool gyre_verbs_slot_look(struct gyre_verbs_pipe *pipe);

/* -- head.c ------------------------------------------------------------------------------ */

/* advance(): by how much the header of this record, a whole frame, is ahead of the last one, if a
 * packet is saved by that; 0: it has to travel. note(): it is the last one now. write(): the header
 * that is so much ahead of the last that came; false: none did. */
uint32_t gyre_verbs_head_advance(const struct gyre_verbs_pipe *pipe, const uint8_t *record,
                                 uint32_t length);
void gyre_verbs_head_note(uint8_t last[GYRE_VERBS_HEAD], const uint8_t *record);
bool gyre_verbs_head_write(const struct gyre_verbs_pipe *pipe, uint32_t advance, uint8_t *record);

/* -- remote_write.c ----------------------------------------------------------------------------- */

void gyre_verbs_remote_write_open(struct gyre_verbs_wire *wire,
                                  const struct gyre_memory_lookup *lookup);
bool gyre_verbs_remote_write_push(struct gyre_verbs_pipe *pipe); /* true: something moved */

/* Whether all shares of a message have left, or come, that the first queue pair tells of; they are
 * counted off then. */
bool gyre_verbs_remote_write_is_whole(struct gyre_verbs_pipe *pipe, uint64_t length, bool out);

/* -- memory.c, dmabuf.c ------------------------------------------------------------ */

/* of(): what is registered and holds the span; NULL: nothing can. by(): as the card of the queue
 * pair of this number knows it; NULL: that is left out. tidy(): gives up what has gone; close(): all. */
const struct gyre_verbs_memory *gyre_verbs_memory_of(struct gyre_verbs_wire *wire,
                                                     const void *memory, uint64_t length);
const struct ibv_mr *gyre_verbs_memory_by(const struct gyre_verbs_wire *wire,
                                          const struct gyre_verbs_memory *memory, uint32_t queue);
void gyre_verbs_memory_tidy(struct gyre_verbs_wire *wire);
void gyre_verbs_memory_close(struct gyre_verbs_wire *wire);

/* NULL, with the reason in errno: it cannot be. */
struct ibv_mr *gyre_verbs_register_dmabuf(struct ibv_pd *domain, int fd, const void *base,
                                          uint64_t length, int access);

/* -- offer.c, meet.c --------------------------------------------------------------- */

/* Describes this end; *why, if something has failed, says why it is not willing. read():
 * GYRE_UNSUPPORTED where this end, the peer's, or the two together do not want to. */
int gyre_verbs_offer_write(struct gyre_verbs_queue *queue, const struct gyre_trouble *why,
                           uint8_t out[GYRE_VERBS_OFFER]);
int gyre_verbs_offer_read(struct gyre_verbs_queue *queue, const struct gyre_trouble *why,
                          const uint8_t in[GYRE_VERBS_OFFER], struct gyre_trouble *trouble);

/* Makes the queue pairs and agrees with the peer, over the first socket, over which of them the two
 * write to each other; the peer does the same, and is waited for. 0: proved by a write each way.
 * GYRE_UNSUPPORTED: both know that it is not to be, and the socket is as it was. */
int gyre_verbs_meet(struct gyre_verbs_pipe *pipe, struct gyre_trouble *trouble);
uint64_t gyre_verbs_meet_ms(uint32_t meetings); /* how long a peer is waited for that lives */
void gyre_verbs_meet_check(struct gyre_verbs_queue *queue, uint32_t length); /* what has come */

#endif

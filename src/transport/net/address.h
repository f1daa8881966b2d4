/* Internet addresses: found, compared, printed, chosen. Nothing here makes a connection. */
#ifndef GYRE_TRANSPORT_NET_ADDRESS_H
#define GYRE_TRANSPORT_NET_ADDRESS_H

#include "base/status.h"
#include "transport/net/cursor.h"

#include <sys/socket.h>

#define GYRE_ADDRESS_TEXT  80 /* "[fe80::1%eth0]:29500" and a zero */
#define GYRE_ADDRESS_BYTES 24 /* on the wire: family 2, port 2, scope 4, address 16 */

/* Finds the addresses of `host` (a name, IPv4, or IPv6 with or without brackets), without
 * duplicates, with `port`. May block on the name service. Returns the number written, at least 1,
 * or, with the story, GYRE_INVALID: no such name; -EAGAIN: the name service does not answer now. */
int gyre_address_resolve(const char *host, uint16_t port, struct sockaddr_storage *out, int max,
                         struct gyre_trouble *trouble);

void gyre_address_format(const struct sockaddr_storage *address, char text[GYRE_ADDRESS_TEXT]);
socklen_t gyre_address_length(const struct sockaddr_storage *address);
uint16_t gyre_address_port(const struct sockaddr_storage *address);
void gyre_address_set_port(struct sockaddr_storage *address, uint16_t port);

bool gyre_address_is_loopback(const struct sockaddr_storage *address);
bool gyre_address_is_any(const struct sockaddr_storage *address);
/* Whether the addresses are equal, ports aside. */
bool gyre_address_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* Makes *to reachable from `own`: a link-local address holds in its own interface only, so it gets
 * the scope of this side's. */
void gyre_address_take_scope(struct sockaddr_storage *to, const struct sockaddr_storage *own);

/* Turns an IPv4 address inside IPv6 (::ffff:192.0.2.1), as a dual-stack listener sees it, into the
 * IPv4 address. */
void gyre_address_normalise(struct sockaddr_storage *address);

/* Write and read an address. One of an unknown family becomes all zeros. */
void gyre_address_put(struct gyre_cursor *cursor, const struct sockaddr_storage *address);
void gyre_address_get(struct gyre_cursor *cursor, struct sockaddr_storage *address);

/* Chooses the first address of this machine that is up and that `list` names (GYRE_INTERFACE:
 * interface names, addresses, CIDR blocks, commas between). An address of `family` is preferred
 * (AF_UNSPEC: any). GYRE_INVALID names the addresses that there are instead. */
int gyre_address_choose(const char *list, int family, struct sockaddr_storage *out,
                        struct gyre_trouble *trouble);

/* Finds this machine's address towards the outside: up, not loopback, not link-local, no tunnel;
 * the one of the default route if there is a route. -ENODEV: there is none. */
int gyre_address_outward(int family, struct sockaddr_storage *out);

#endif

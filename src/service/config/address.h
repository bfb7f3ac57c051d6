/* Addresses to listen on: "127.0.0.1:50051", "[::1]:0", "localhost:0", "unix:/run/prony.sock". */
#ifndef PRN_SERVICE_CONFIG_ADDRESS_H
#define PRN_SERVICE_CONFIG_ADDRESS_H

#include <stdbool.h>

struct prn_address {
    bool socket_file; /* unix:… */
    bool local;       /* a socket file, or loopback; a name other than localhost isn't */
};

/* NULL when the text is an address, otherwise what is wrong with it. */
const char *prn_address_parse(const char *text, struct prn_address *ret_address);

#endif

#include "model/model.h"

#include <stdio.h>

#define BLOCKS 256
#define BLOCK_BYTES 4096
#define LEAVE_AFTER 8

/* FNV-1a, 64 bits. */
static uint64_t mix(uint64_t hash, const unsigned char *data, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ data[i]) * 0x100000001b3u;
    return hash;
}

void prn_model_fingerprint(const struct prn_model *model, char text[PRN_FINGERPRINT_SIZE])
{
    uint64_t hash = 0xcbf29ce484222325u ^ model->file_bytes;
    uint64_t whole = (uint64_t)BLOCKS * BLOCK_BYTES;
    if (model->file_bytes <= whole) {
        hash = mix(hash, model->data, (size_t)model->file_bytes);
    } else {
        /* The last block ends where the file does. */
        uint64_t last = model->file_bytes - BLOCK_BYTES;
        for (uint64_t i = 0; i < BLOCKS; i++) {
            uint64_t at = (uint64_t)((double)last * (double)i / (BLOCKS - 1));
            hash = mix(hash, (const unsigned char *)model->data + at, BLOCK_BYTES);
            /* The kernel maps the neighbours of each page that is touched, 64 KiB and more. */
            if (i % LEAVE_AFTER == LEAVE_AFTER - 1)
                prn_model_leave_pages(model);
        }
    }
    snprintf(text, PRN_FINGERPRINT_SIZE, "%016llx", (unsigned long long)hash);
}

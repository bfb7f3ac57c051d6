/* What the public functions on recorded profiles share. */
#ifndef PRN_RECORD_API_H
#define PRN_RECORD_API_H

#include "measure/profile.h"

struct prony_profile {
    struct prn_profile *inside;
};

#endif

/* Reports and pages that come from elsewhere: what is taken can be written as a page whose data end
 * nothing before their end, and be read again from there. */
#include "report/page.h"

#include <stdlib.h>
#include <string.h>

#define BEGINS "id=\"prony-data\">"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_and_read(const struct prn_page *page)
{
    struct prn_page again = PRN_PAGE_INIT;
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_PAGE_MAX);
    struct prony_error err;
    if (prn_page_write(page, &out, &err) < 0)
        abort();
    const char *text = strstr(prn_buffer_text(&out), BEGINS) + strlen(BEGINS);
    if (text + strcspn(text, "<>&") != strstr(text, "</script>"))
        abort();
    if (prn_page_add_html(&again, "again", prn_buffer_text(&out), out.len, &err) < 0 ||
        strcmp(prn_buffer_text(&again.reports), prn_buffer_text(&page->reports)) != 0)
        abort();
    prn_buffer_release(&out);
    prn_page_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prn_page page = PRN_PAGE_INIT;
    struct prony_error err;
    const char *text = (const char *)data;
    int code = size > 0 && text[0] == '<'
                   ? prn_page_add_html(&page, "fuzz", text, size, &err)
                   : prn_page_add_json(&page, "fuzz", text, size, NULL, &err);
    if (code == 0 && prn_page_check(&err) == 0)
        write_and_read(&page);
    prn_page_release(&page);
    return 0;
}

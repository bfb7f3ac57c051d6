/* Texts made from the option tables. */
#ifndef PRN_CLI_PAGES_H
#define PRN_CLI_PAGES_H

#include "cli/command.h"

void prn_command_help(const struct prn_command *command, struct prn_buffer *out);
void prn_command_overview(struct prn_buffer *out);
void prn_command_man(struct prn_buffer *out);
void prn_command_bash(struct prn_buffer *out);
void prn_command_zsh(struct prn_buffer *out);

#endif

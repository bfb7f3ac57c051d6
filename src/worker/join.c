#include "worker/join.h"

#include "base/buffer.h"
#include "rpc/client.h"
#include "rpc/messages.h"

#include <prony.pb-c.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOIN_METHOD "/prony.Workers/Join"
#define JOIN_S 30.0
#define KEY_MAX 4096

int prn_worker_read_key(const char *path, char **ret_key, struct prony_error *err)
{
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    struct prn_buffer text = PRN_BUFFER_INIT(KEY_MAX);
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return prn_fail_errno(err, errno, "read", path);
    int code = prn_buffer_read_fd(&text, fd, name, err);
    if (!standard)
        close(fd);
    char *key = code == 0 ? prn_buffer_detach(&text) : NULL;
    prn_buffer_release(&text);
    if (key)
        key[strcspn(key, " \t\r\n")] = '\0';
    if (code == 0 && (!key || !key[0])) {
        code = prn_fail(err, PRONY_EFORMAT, "'%s' has no key", name);
        free(key);
    }
    if (code == 0)
        *ret_key = key;
    return code;
}

int prn_worker_join(const struct prn_channel_config *config, char **ret_token,
                    struct prony_error *err)
{
    Prony__JoinRequest request = PRONY__JOIN_REQUEST__INIT;
    struct prn_channel *channel;
    struct prn_bytes *reply = NULL;
    ProtobufCMessage *message = NULL;
    int code = prn_channel_open(config, &channel, err);
    if (code < 0)
        return code;
    code = prn_channel_call(channel, JOIN_METHOD, prn_rpc_pack(&request.base), JOIN_S, &reply, NULL,
                            err);
    if (code == 0)
        code = prn_rpc_unpack(reply, &prony__join_reply__descriptor, &message, err);
    if (code == 0) {
        *ret_token = strdup(((const Prony__JoinReply *)message)->token);
        code = *ret_token ? 0 : prn_fail_memory(err);
        protobuf_c_message_free_unpacked(message, NULL);
    }
    prn_bytes_free(reply);
    prn_channel_close(channel);
    return code;
}

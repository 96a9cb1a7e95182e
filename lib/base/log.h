/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Messages to the user: "shift[pid]: level: text" on standard error, or in $SHIFT_LOG_FILE. Quiet
 * unless asked or in trouble. Any thread, any locks held. */
#ifndef SHIFT_BASE_LOG_H
#define SHIFT_BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* One write(2) per line, of at most 1024 bytes; errno is kept. The default level is LOG_WARN. */
void log_at(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Written whatever the level is: the summary at exit. */
void log_always(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

#endif

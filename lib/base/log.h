/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* "shift[pid]: level: text" on stderr, or in $SHIFT_LOG_FILE. Quiet unless asked or in trouble. */
#ifndef SHIFT_BASE_LOG_H
#define SHIFT_BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* One write(2) per line; errno is saved; any thread. Default level LOG_WARN. */
void log_at(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whatever the level: the summary at exit. */
void log_always(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

#endif

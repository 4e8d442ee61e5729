// Whether this is a build with a sanitizer. Sanitizers make the tests' own loops many times slower,
// and find a mistake when a line runs once, so the tests leave out what only repeats lines.
#pragma once

#ifndef __has_feature // gcc does not have it
#define __has_feature(name) 0
#endif
#if __has_feature(thread_sanitizer) || defined(__SANITIZE_THREAD__)
enum { THREADS_CHECKED = 1, SANITIZED = 1 };
#elif __has_feature(address_sanitizer) || defined(__SANITIZE_ADDRESS__)
enum { THREADS_CHECKED = 0, SANITIZED = 1 };
#else
enum { THREADS_CHECKED = 0, SANITIZED = 0 };
#endif

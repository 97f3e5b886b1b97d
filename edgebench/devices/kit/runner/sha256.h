/* SHA-256 of files (FIPS 180-4). */
#pragma once

/* Write the file's digest as 64 hexadecimal digits and a NUL, or `fail`. */
void sha256_of_file(const char *path, char hex[65]);

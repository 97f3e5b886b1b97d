/* What really runs a TFLite graph's operators. */
#pragma once

/* The delegate's name, and the share of the file's operators that it took over; "unknown" and -1 where the library
 * does not say. The interpreter must not be run afterwards. */
const char *tflite_delegation(void *library, void *interpreter, double *fraction);

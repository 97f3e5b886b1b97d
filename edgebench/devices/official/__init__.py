"""Benchmark programs of the runtimes' makers, which time a model by themselves and tell it in a log.

`commands` and `perf_test` write their command lines, `benchmark_log`, `delegation` and `perf_test` read what they say,
`program_files` brings the program, `tensor_order` says in which order a file has its tensors. They are pure, except for
`program_files`; `edgebench.measure.tool_session` drives a device with them.
"""

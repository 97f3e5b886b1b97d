#!/bin/sh
# In the place of qemu-aarch64-static ("-L FOLDER PROGRAM ..."): in this machine ARM programs run as they are.
shift 2
exec "$@"

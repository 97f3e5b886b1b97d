"""The kit: a native runner and its libraries for aarch64 devices without Python, like phones; built here, pushed there.

`build.kit_folder` has a kit ready, `build.files` says what to push, `build.command` how to start it on the device.
"""

"""Devices: the seam that drivers implement, the host, the inventory and who holds what."""

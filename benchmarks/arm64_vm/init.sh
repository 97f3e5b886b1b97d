#!/bin/busybox sh
# The first process of the virtual machine.
/bin/busybox mkdir -p /bin /sbin /proc /sys /dev /tmp /root
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o size=75% tmp /tmp
for module in virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci failover net_failover virtio_net; do
    insmod "/modules/$module.ko" || echo "no $module"
done
ifconfig lo 127.0.0.1 up
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up # what qemu's user network forwards to
export HOME=/root LANG=C.UTF-8 PYTHONPATH=/site:/
/usr/bin/python3.11 /guest.py
echo "phone ended: status $?"
poweroff -f

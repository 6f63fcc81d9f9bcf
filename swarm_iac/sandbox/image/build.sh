#!/bin/bash
# What does a node's disk hold when it is new? Writes OUT/{rootfs.img,vmlinuz,initrd.img,manifest}.
# usage: build.sh OUT LIBNVIDIA_ML      (as root; no loop device and no mount on the host is needed)
set -euo pipefail
out=$1 nvml=$2 size=${SIZE:-6G}
here=$(cd "$(dirname "$0")" && pwd)
root=$out/root
rm -rf "$root"; mkdir -p "$root"
packages=$(paste -sd, "$here/packages.txt")

# A Debian 12 host lends its own package sources; any other leaves them to mmdebstrap.
sources=()
if grep -q '^VERSION_CODENAME=bookworm' /etc/os-release; then
  for f in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do [ -s "$f" ] && sources+=("$f"); done
fi

# No initramfs-tools run: make-initrd.sh writes a far smaller one.
mmdebstrap --mode=root --variant=minbase --format=directory --components=main \
  --aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
  --dpkgopt='force-unsafe-io' --dpkgopt='force-confold' \
  --setup-hook='mkdir -p "$1/etc"; echo "do_symlinks = no" > "$1/etc/kernel-img.conf"' \
  --essential-hook='mkdir -p "$1/etc/initramfs-tools"; echo update_initramfs=no > "$1/etc/initramfs-tools/update-initramfs.conf"' \
  --include="$packages" bookworm "$root" "${sources[@]}"

kernel=$(ls "$root/lib/modules" | tail -1)
echo node > "$root/etc/hostname"
echo '/dev/root / ext4 defaults,noatime 0 0' > "$root/etc/fstab"
: > "$root/etc/machine-id"                 # empty: each node makes its own, without a first-boot run
: > "$root/etc/resolv.conf"                # nodes reach nothing outside the sandbox
rm -f "$root"/etc/ssh/ssh_host_* "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/*
install -D -m 644 "$here/node/sshd.conf" "$root/etc/ssh/sshd_config.d/sandbox.conf"
install -D -m 644 "$here/node/journald.conf" "$root/etc/systemd/journald.conf.d/sandbox.conf"
install -D -m 644 "$here/node/system.conf" "$root/etc/systemd/system.conf.d/sandbox.conf"
install -D -m 755 "$here/node/sandbox-boot" "$root/usr/local/sbin/sandbox-boot"
install -D -m 644 "$here/node/sandbox-boot.service" "$root/etc/systemd/system/sandbox-boot.service"
install -D -m 755 "$nvml" "$root/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
chroot "$root" systemctl -q enable sandbox-boot.service ssh.service
chroot "$root" systemctl -q set-default multi-user.target
grep -v '^#' "$here/node/disable" | xargs chroot "$root" systemctl -q disable 2>/dev/null || true
grep -v '^#' "$here/node/mask" | xargs chroot "$root" systemctl -q mask 2>/dev/null
# Byte code is compiled once here, not on each node.
chroot "$root" python3 -m compileall -q /usr/lib/python3.11 /usr/lib/python3/dist-packages > /dev/null 2>&1 || true
chroot "$root" ldconfig; chroot "$root" depmod "$kernel"
chroot "$root" dpkg-query -W -f '${Package} ${Version}\n' > "$out/manifest"
rm -rf "$root"/var/cache/apt/*.bin "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/archives/*.deb

cp "$root/boot/vmlinuz-$kernel" "$out/vmlinuz"
"$here/make-initrd.sh" "$root" "$kernel" "$out/initrd.img"
rm -f "$root"/boot/System.map* "$root"/boot/initrd* "$root"/boot/vmlinuz*
# With a journal: a node that loses power comes back.
mke2fs -q -t ext4 -L root -E lazy_itable_init=1,nodiscard -J size=32 -m 0 -d "$root" "$out/rootfs.img" "$size"
rm -rf "$root"

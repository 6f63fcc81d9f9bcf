#!/bin/bash
# Which is the smallest initrd that reaches the root disk? Static busybox and the modules for it.
# usage: make-initrd.sh ROOT KERNEL OUT.   `probe` on the kernel's command line prints PROBE-OK and powers off.
set -euo pipefail
root=$1 kernel=$2 out=$(realpath -m "$3")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{bin,dev,proc,sys,newroot,m}
busybox=$(command -v busybox)
file -L "$busybox" | grep -q static || { echo "needs the package busybox-static" >&2; exit 1; }
cp "$busybox" "$work/bin/busybox"
order=""
for want in virtio_blk virtio_pci virtio_net ext4; do
  while read -r kind path _; do
    [ "$kind" = insmod ] || continue
    name=$(basename "$path")
    [ -e "$work/m/$name" ] || { cp "$path" "$work/m/$name"; order="$order $name"; }
  done < <(modprobe -d "$root" -S "$kernel" --show-depends "$want" 2>/dev/null || true)
done
{ echo '#!/bin/busybox sh'
  echo '/bin/busybox mount -t devtmpfs dev /dev; /bin/busybox mount -t proc proc /proc'
  echo 'for a in $(/bin/busybox cat /proc/cmdline); do [ $a = probe ] && { echo PROBE-OK > /dev/console; /bin/busybox poweroff -f; }; done'
  for name in $order; do echo "/bin/busybox insmod /m/$name"; done
  cat <<'X2'
i=0; while [ ! -b /dev/vda ] && [ $i -lt 300 ]; do i=$((i+1)); /bin/busybox usleep 50000; done
/bin/busybox mount -t ext4 -o rw,noatime /dev/vda /newroot
/bin/busybox umount /proc; /bin/busybox mount --move /dev /newroot/dev
exec /bin/busybox switch_root /newroot /sbin/init
X2
} > "$work/init"
chmod 755 "$work/init"
(cd "$work" && find . | cpio -o -H newc --quiet) > "$out"

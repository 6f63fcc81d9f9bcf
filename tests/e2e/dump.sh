#!/bin/sh
# Everything on a node that this tool may touch, as text to compare. Lines that change by themselves are left out.
export LC_ALL=C
echo "== settings"
sysctl -a 2>/dev/null | grep -E '^(vm\.(swappiness|nr_hugepages|overcommit|dirty|min_free)|net\.(core|ipv4\.tcp)|kernel\.(numa|sched|pid_max|threads)|fs\.(file-max|nr_open))' | grep -vE 'tcp_fastopen_key|tcp_mem|netdev_rss_key|tcp_(available|allowed)_congestion'
cat /sys/kernel/mm/hugepages/*/nr_hugepages /sys/devices/system/node/node*/hugepages/*/nr_hugepages
for file in $SETTINGS; do echo "$file $(cat "$file")"; done 2>/dev/null  # where the node program's own settings are kept
echo "== gpus"
# The stand-in writes a line for each card at the first change of any; these are its defaults.
grep -vE ' 0 (700000|350000) 0 0 0 0$' /run/swarm-nvml/state 2>/dev/null
ls -l /dev/nvidia* /dev/nvidia-caps 2>/dev/null | awk '{print $1, $3, $4, $NF}'
echo "== traffic"
ip -o link | sed 's/^[0-9]*: //; s/ qlen.*//' | sort
for device in eth0 eth1; do tc qdisc show dev $device; tc class show dev $device; tc filter show dev $device; done | sed -E 's/^(qdisc [a-z_]+) [0-9a-f]+:/\1/'
nft list ruleset
echo "== cgroups"
find /sys/fs/cgroup -mindepth 1 -maxdepth 2 -type d | grep -vE 'user\.slice|system\.slice/' | sort
echo "== files"
find /etc /usr/local /srv /opt /root -xdev \( -type f -o -type l \) ! -name '*-' ! -path '/root/.ssh/*' -printf '%M %u %g %p %l\n' | sort
find /etc /usr/local -xdev -type f ! -name '*-' ! -name 'subuid' ! -name 'subgid' ! -path '/etc/.pwd.lock' -exec sha256sum {} + | sort -k2
ls /var/lib /home
echo "== people"
sort /etc/passwd /etc/group
echo "== mounts and disks"
findmnt -rno TARGET,SOURCE,FSTYPE | grep -vE '^/run|^/proc|^/sys|^/dev' | sort
blkid -p /dev/vdb 2>/dev/null
echo "== units"
systemctl list-unit-files --no-legend --no-pager | grep -vw transient | sort  # our own logins are such
systemctl list-units --all --no-legend --no-pager --plain 'swarm*' | sort
systemctl list-units --no-legend --no-pager --plain --type=service --state=failed
exit 0

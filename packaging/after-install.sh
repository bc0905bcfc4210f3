#!/bin/sh
# Runs when the package has been unpacked, for the first time or again: makes what the service needs.
# Directories that are there stay as they are.
set -e
if ! getent passwd xdfs >/dev/null; then
  useradd --system --user-group --home-dir /var/lib/xdfs --no-create-home --shell /usr/sbin/nologin xdfs
fi
make_directory() {
  [ -d "$1" ] || install -d -o xdfs -g xdfs -m "$2" "$1"
}
make_directory /srv/xdfs 750
make_directory /var/lib/xdfs 700
make_directory /var/log/xdfs 750
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  # A server that runs goes on with the new program; one that does not stays off.
  # That is no reason to leave the package half configured.
  systemctl try-restart xdfs.service ||
    echo "xdfs: the service did not start again; 'systemctl status xdfs' and 'xdfs serve --check' say why" >&2
fi

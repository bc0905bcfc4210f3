#!/bin/sh
# Runs when the package has been removed. Only 'purge' takes keys, users and logs, and nothing ever what was served.
set -e
if [ "$1" = purge ]; then
  rm -rf /var/lib/xdfs /var/log/xdfs
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi

#!/bin/sh
# Runs before the package is removed: 'remove' is Debian's word for it, 0 the number of packages that rpm leaves.
set -e
case "$1" in
  remove | 0)
    if [ -d /run/systemd/system ]; then
      systemctl disable --now xdfs.service
    fi
    ;;
esac

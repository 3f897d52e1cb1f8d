cd /tmp/attest-1
TIMEFORMAT='%R s real %U user %S sys'
time /tmp/attest-cvm seal in4 --dir b4 >/dev/null
time dd if=/dev/zero of=ddfile bs=4M count=1024 oflag=direct conv=fsync 2>&1 | tail -1
time /tmp/attest-cvm unseal --dir b4 --format files out4 
time dd if=ddfile of=/dev/null bs=4M iflag=direct 2>&1 | tail -1

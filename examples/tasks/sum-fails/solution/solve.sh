#!/bin/sh
# Wrong on purpose: without input it prints an empty line instead of 0.
cat > /root/sum.sh <<'END'
#!/bin/sh
total=
while read -r number; do
    total=$((total + number))
done
echo "$total"
END
chmod +x /root/sum.sh

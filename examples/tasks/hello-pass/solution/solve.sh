#!/bin/sh
echo 'Hello, world!' > /root/hello.txt

#!/bin/sh
date +%Y-%m-%d > /root/today.txt

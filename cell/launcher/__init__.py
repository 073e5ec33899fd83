"""The zygote: holds a sandbox, and starts every process that joins it.

Run as `python -I -S start.py FD`, FD being a SOCK_SEQPACKET socket to the serving process. This package
imports nothing but the standard library, because what it does after `setns` happens in a root that the
agent can write: whatever Python would still load from there (a module, a codec, an NSS library) would
run with every capability of the sandbox. So everything is imported first, then the import system is
emptied, and strings are made bytes before joining (FACTS: a late import is fatal).

    start       empties the import system, then serves
    zygote      the one process that forks all others: hold, spawn
    join        namespaces, capabilities, signals: what a process has when it starts
    holding     the sandbox: bubblewrap, pid 1, hardened mounts
    ends        what stands in its network, made before anything runs
    steering    the rules by which every connection meets it
    net         sockets that belong to the sandbox's network
    probe       what a process of the world sees, for the fidelity check
    view        mounts: the hardened root, the verifier's own root, a terminal
    syscalls    what the standard library of 3.11 has no name for

Requests are one packet with one marshalled dict in an attached memfd, and further descriptors:

    {"op": "hold",  …}                     fds: init program, seccomp filter         → one marshalled reply
    {"op": "network", "act": …}  fds: channel                            → marshalled facts + descriptors
    {"op": "spawn", …}  fds: channel, [stdin, stdout, stderr], [view mounts…]        → see below

A spawned process is told about on its own channel (SOCK_SEQPACKET), one packet each:

    b"M" + fd         the master of its terminal (only with a terminal)
    b"P<pid>"         its pid, as the substrate sees it
    b"S<inode>"       about to exec, in this mount namespace
    b"E<stage>:<errno>"   it could not be started
    b"X<code>" | b"K<signal>"   it ended

The process tree: serve → zygote (dies with serve) → bwrap → pid 1; and per session a *warden*, which
joined the namespaces, stays outside the pid namespace and waits for the one process it forked in.
"""

#pragma once
#include <hiredis/hiredis.h>
// RedisCluster uses `epoll` to wait for the connections to all servers of a cluster together.
#include <sys/epoll.h>

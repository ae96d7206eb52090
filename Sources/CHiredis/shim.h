#pragma once
#include <hiredis/hiredis.h>
// For `epoll`, by which RedisCluster waits for the connections to all servers of a cluster together.
#include <sys/epoll.h>

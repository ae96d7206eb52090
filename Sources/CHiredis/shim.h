#pragma once
#include <hiredis/hiredis.h>
// The connections to the servers of a cluster are waited for together.
#include <sys/epoll.h>

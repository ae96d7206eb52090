// A stand-in for Apple's C library on Linux, for type checks: the SDK uses POSIX functions that both have.
@_exported import Glibc
